"""The tests' own checks: a shape or a type that is not the annotated one is refused wherever it
comes up."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import jaxtyping
import pytest
import torch
from beartype.roar import BeartypeCallHintViolation
from jaxtyping import Float, Int, TypeCheckError
from shape_checks import enforced, may_have_shapes
from tiny import tiny_model
from torch import Tensor

from anydepth.config.loading import make_config

REFUSED = (BeartypeCallHintViolation, TypeCheckError)


@enforced
def cut(states: Float[Tensor, "row time dim"], lengths: Int[Tensor, " row"], *, to: int) -> Float[Tensor, "row dim"]:
    """A function whose result has the wrong shape where `to` is 0."""
    return states[:, 0] if to else states[0]


@enforced
def outer(states: Float[Tensor, "row time dim"]) -> Float[Tensor, "row dim"]:
    """A function that calls another one with axes of the same names and other sizes."""
    cut(torch.zeros(2, 5, 7), torch.ones(2, dtype=torch.int64), to=1)
    return states[:, 0]


@enforced
@dataclass
class Held:
    """A record of two tensors that are equally long."""

    keys: Float[Tensor, " time"]
    values: Float[Tensor, " time"]


@enforced
def counted(upto: Int[Tensor, " row"]) -> Iterator[int]:
    yield len(upto)


@enforced
def named(name: str) -> int:
    """A function without shapes whose result has the wrong type for an empty name."""
    found: Any = len(name) or "none"
    return found


STATES, LENGTHS = torch.zeros(3, 6, 12), torch.ones(3, dtype=torch.int64)


def test_what_is_as_annotated_passes() -> None:
    assert cut(STATES, LENGTHS, to=1).shape == (3, 12)
    assert outer(STATES).shape == (3, 12)
    assert len(Held(torch.zeros(4), torch.zeros(4)).keys) == 4
    assert list(counted(LENGTHS)) == [3]
    assert named("abc") == 3


@pytest.mark.parametrize(
    ("function", "arguments", "options"),
    [
        pytest.param(cut, (STATES[0], LENGTHS), {"to": 1}, id="one axis too few"),
        pytest.param(cut, (STATES, LENGTHS[:2]), {"to": 1}, id="an axis of two sizes"),
        pytest.param(cut, (STATES.long(), LENGTHS), {"to": 1}, id="another dtype"),
        pytest.param(cut, (STATES, LENGTHS), {"to": "1"}, id="another type beside shapes"),
        pytest.param(cut, (STATES, LENGTHS), {"to": 0}, id="a result of another shape"),
        pytest.param(outer, (STATES[0],), {}, id="around another call"),
        pytest.param(Held, (torch.zeros(4), torch.zeros(5)), {}, id="fields of a record"),
        pytest.param(counted, (STATES,), {}, id="the argument of a generator"),
        pytest.param(named, (3,), {}, id="another type"),
        pytest.param(named, ("",), {}, id="a result of another type"),
    ],
)
def test_what_is_not_as_annotated_is_refused(
    function: Any, arguments: tuple[Any, ...], options: dict[str, Any]
) -> None:
    with pytest.raises(REFUSED):
        function(*arguments, **options)


def test_the_modules_of_the_package_that_have_shapes_are_checked_and_others_are_not() -> None:
    with pytest.raises(REFUSED):
        tiny_model().encode(torch.zeros(3, 7), torch.ones(3, 7, dtype=torch.bool))
    assert not hasattr(make_config, "__wrapped__")


def test_a_shape_is_found_wherever_it_stands_in_an_annotation() -> None:
    shape = Float[Tensor, " time"]
    assert all(map(may_have_shapes, (shape, shape | None, list[tuple[int, shape]], dict[str, shape], "Later")))
    assert not any(map(may_have_shapes, (int, Tensor, int | None, list[tuple[str, ...]], None, Any)))
    assert jaxtyping.jaxtyped(typechecker=None) is enforced
