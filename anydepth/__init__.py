"""Translation models that think only as deep as each word needs."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from anydepth.inference.translator import Translation, Translator

__version__ = "0.1.0"
__all__ = ["Translation", "Translator", "__version__"]


def __getattr__(name: str) -> Any:
    """`Translator` and `Translation`, imported when first asked for, so that `import anydepth`
    stays quick."""
    if name in ("Translation", "Translator"):
        from anydepth.inference import translator

        return getattr(translator, name)
    raise AttributeError(f"module 'anydepth' has no attribute {name!r}")
