"""Annotations that are enforced while tests run: shapes by jaxtyping, types by beartype.

jaxtyping's import hook decorates every function of a module with `jaxtyped`, which binds the
arguments of a call once more and checks them twice, before and after it. `enforced` stands in its
place: it checks the arguments and the result once each.
"""

import inspect
from collections.abc import Callable, Sequence
from dataclasses import is_dataclass
from functools import wraps
from typing import Any, get_args

import jaxtyping
from beartype import beartype

jaxtyped = jaxtyping.jaxtyped
AXES_OF_ONE_CALL = jaxtyped("context")


def enforce_annotations(modules: Sequence[str]) -> None:
    """Has the annotations of `modules`, which this process has not imported yet, enforced."""
    jaxtyping.jaxtyped = lambda *, typechecker: enforced  # the hook's decorator looks the name up there
    jaxtyping.install_import_hook(modules, "beartype.beartype")


def enforced(body: Any) -> Any:
    """`body`, a function or a class, with its annotations enforced; a named axis has one size in
    all arguments and the result of a call."""
    if inspect.isclass(body):
        if is_dataclass(body):
            body.__init__ = enforced(body.__init__)
        return body
    if inspect.isgeneratorfunction(body):  # its values come when the axes of the call are forgotten
        return jaxtyped(body, typechecker=beartype)
    if any(may_have_shapes(hint) for hint in body.__annotations__.values()):
        return with_own_axes(body)
    return beartype(body)


def may_have_shapes(hint: object) -> bool:
    """Whether the annotation has a shape inside; yes in case of doubt."""
    if parts := get_args(hint):
        return any(may_have_shapes(part) for part in parts)
    if inspect.isclass(hint):
        return issubclass(hint, jaxtyping.AbstractArray)
    return hint not in (None, Any, ...)


def with_own_axes(body: Callable[..., Any]) -> Callable[..., Any]:
    """`body` with its annotations enforced, whose every call has axes of its own."""
    checked = beartype(body)

    @wraps(body)
    def call(*arguments: Any, **options: Any) -> Any:
        with AXES_OF_ONE_CALL:
            return checked(*arguments, **options)

    return call
