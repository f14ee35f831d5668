"""The settings that come with the package: their names, their files and what each is for."""

import difflib
from pathlib import Path

from anydepth.errors import ConfigError

PACKAGE = Path(__file__).parents[1]
FOLDERS = (PACKAGE / "config" / "settings", PACKAGE / "demo" / "settings")


def shipped_names() -> list[str]:
    """The names of all shipped settings, in the order of the alphabet."""
    return sorted(shipped_files())


def shipped_files() -> dict[str, Path]:
    """The TOML file of each shipped settings, by name."""
    return {file.stem: file for folder in FOLDERS for file in folder.glob("*.toml")}


def shipped_file(name: str) -> Path:
    """The TOML file of the shipped settings `name`."""
    files = shipped_files()
    if name not in files:
        raise ConfigError(f"no settings {name!r} come with anydepth; {_nearest(name)}")
    return files[name]


def shipped_purpose(name: str) -> str:
    """What the shipped settings `name` are for: the first comment of their file."""
    return shipped_file(name).read_text(encoding="utf-8").partition("\n")[0].removeprefix("#").strip()


def find_settings(given: Path) -> Path:
    """The TOML file that `given` names: a file of the user's, or else shipped settings as in `demo`
    or `configs/demo.toml`."""
    if given.is_file():
        return given
    name = given.name.removesuffix(".toml")
    is_shipped_path = given.parent == Path("configs") and given.suffix == ".toml"
    if name in shipped_names() and (given == Path(name) or is_shipped_path):
        return shipped_file(name)
    raise ConfigError(
        f"there is no configuration at {given}; name a TOML file, or settings that come with anydepth: {_nearest(name)}"
    )


def _nearest(name: str) -> str:
    names = shipped_names()
    near = difflib.get_close_matches(name, names, n=1)
    return f"did you mean {near[0]}?" if near else f"choose among {', '.join(names)}"
