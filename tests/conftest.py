"""Shapes are checked while tests run: beartype enforces every jaxtyping annotation of the package."""

from jaxtyping import install_import_hook

install_import_hook("anydepth", "beartype.beartype")
