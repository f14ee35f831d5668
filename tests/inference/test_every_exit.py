"""All exits in one search: what fixed:n finds at each, with every sentence encoded once."""

import random
from collections.abc import Callable

import pytest
import torch
from tiny import BLOCKS, ENCODER_BLOCKS, SOURCE_VOCAB, tiny_model
from walks import model_for

from anydepth.errors import UsageError
from anydepth.exits.adaptive import AdaptiveTransformer
from anydepth.exits.policies import FixedExit
from anydepth.inference.engines.engine import Engine
from anydepth.inference.engines.native.native_engine import NativeEngine, has_native
from anydepth.inference.engines.torch_engine import TorchEngine
from anydepth.search.decoding import SearchSettings

needs_native = pytest.mark.skipif(not has_native(), reason="there was no C++ compiler when anydepth was installed")
ENGINES = [TorchEngine, pytest.param(NativeEngine, marks=needs_native)]


def sentences(count: int) -> list[list[int]]:
    randomness = random.Random(count)
    return [randomness.choices(range(4, SOURCE_VOCAB), k=randomness.randint(1, 9)) for _ in range(count)]


@pytest.mark.parametrize("make_engine", ENGINES)
@pytest.mark.parametrize(("beam", "batch_tokens", "classifiers"), [(1, 20, "untied"), (3, 1000, "tied")])
def test_every_exit_finds_what_a_search_for_it_alone_finds(
    make_engine: Callable[[AdaptiveTransformer], Engine], beam: int, batch_tokens: int, classifiers: str
) -> None:
    engine = make_engine(model_for("none", f"model.classifiers={classifiers}"))
    texts, settings = (
        [*sentences(9), *sentences(9)[:2]],
        SearchSettings(beam=beam, length_ratio=1.0, length_offset=3, batch_tokens=batch_tokens),
    )
    found = engine.search_every_exit(texts, settings)
    for n in range(1, BLOCKS + 1):
        alone = engine.search(texts, FixedExit(n, BLOCKS), settings)
        assert [each[n - 1].tokens for each in found] == [best.tokens for best, *_ in alone]
        assert {left for each in found for left in each[n - 1].exits} == {n}
    assert len({tuple(hypothesis.tokens) for hypothesis in found[0]}) > 1, "else exits do not differ"


@pytest.mark.parametrize("make_engine", ENGINES)
def test_nothing_gives_nothing(make_engine: Callable[[AdaptiveTransformer], Engine]) -> None:
    assert make_engine(tiny_model()).search_every_exit([], SearchSettings(beam=1)) == []


def test_the_plain_step_encodes_every_sentence_once() -> None:
    model, texts = model_for("none"), sentences(7)
    short = SearchSettings(beam=2, length_ratio=1.0, length_offset=1, batch_tokens=40)
    seen: list[torch.Size] = []
    model.encoder[0].register_forward_hook(lambda block, inputs, output: seen.append(output.shape))
    TorchEngine(model).search_every_exit(texts, short)
    assert sum(shape[0] for shape in seen) == len(texts)
    assert len(seen) > 1


@needs_native
@pytest.mark.parametrize("count", [1, 5, 60])
def test_the_native_engine_encodes_every_sentence_once(count: int) -> None:
    engine, texts, settings = (
        NativeEngine(model_for("none")),
        sentences(count),
        SearchSettings(beam=1, batch_tokens=10_000),
    )
    engine.search(texts, FixedExit(1, BLOCKS), settings)
    assert engine.counts is not None
    once = engine.counts.encoder_flops
    engine.search_every_exit(texts, settings)
    assert engine.counts.encoder_flops == once > 0
    assert len(engine.model.encoder) == ENCODER_BLOCKS


def test_a_model_of_one_exit_has_none_to_choose_from() -> None:
    with pytest.raises(UsageError, match=r'this model has one exit, .* train one with model.exits = "all"$'):
        TorchEngine(tiny_model("model.exits=last")).search_every_exit([[5]], SearchSettings(beam=1))
