"""An engine and a policy that the package has never heard of: the engine is used, and what it does
not support is left to the plain step."""

import random
from collections.abc import Sequence

import pytest
import torch
from jaxtyping import Int
from tiny import SOURCE_VOCAB, tiny_model
from torch import Tensor
from walks import model_for

from anydepth.bench.cells import translate
from anydepth.bench.contestants import OwnContestant
from anydepth.errors import UsageError
from anydepth.exits.adaptive import AdaptiveTransformer
from anydepth.exits.policies import FixedExit, PlanKeepingPolicy, Policy
from anydepth.inference.engines import choice
from anydepth.inference.engines.choice import automatic_engine, make_engine
from anydepth.inference.engines.engine import Engine
from anydepth.inference.engines.plain_search import plain_search
from anydepth.inference.engines.torch_engine import TorchEngine
from anydepth.model.source import EncodedSource
from anydepth.runs.run import Run
from anydepth.search.beam import Hypothesis
from anydepth.search.decoding import SearchSettings

SETTINGS = SearchSettings(beam=2, batch_tokens=60)


class ToyEngine(Engine):
    """Knows fixed exits, and marks what it finds by its score."""

    SCORE = 123.0

    @classmethod
    def make(cls, model: AdaptiveTransformer, *, int8: bool, threads: int | None, run: Run | None) -> Engine:
        if int8:
            raise UsageError("the toy engine has no 8-bit products")
        return cls(model, name="toy")

    @classmethod
    def is_at_hand(cls, *, int8: bool, blocks: int, run: Run | None) -> bool:
        return not int8 and blocks < 9

    def supports(self, policy: Policy) -> str | None:
        return None if policy.name.startswith("fixed:") else f"it does not know policies such as {policy.name}"

    def own_search(
        self, sequences: Sequence[Sequence[int]], policy: Policy, settings: SearchSettings
    ) -> list[list[Hypothesis]]:
        assert sequences and self.supports(policy) is None
        return [
            [Hypothesis(each.tokens, each.exits, each.token_scores, self.SCORE, True) for each in ranked]
            for ranked in plain_search(self.model, sequences, policy, settings)
        ]


class AlternatingExits(PlanKeepingPolicy):
    """Leaves after block 1 and after block 2 by turns."""

    blocks, name = 2, "alternating"

    def plan(self, source: EncodedSource, *, limit: int) -> Int[Tensor, "sentence limit"]:
        return (1 + torch.arange(limit) % 2).expand(len(source), limit)


@pytest.fixture
def toy(monkeypatch: pytest.MonkeyPatch) -> None:
    """The line in choice.py that a new engine takes."""
    monkeypatch.setattr(choice, "ENGINES", {"toy": ToyEngine, **choice.ENGINES})


def sentences(count: int) -> list[list[int]]:
    randomness = random.Random(count)
    return [randomness.choices(range(4, SOURCE_VOCAB), k=randomness.randint(1, 9)) for _ in range(count)]


def scores(found: list[list[Hypothesis]]) -> set[float]:
    return {each.score for ranked in found for each in ranked}


@pytest.mark.usefixtures("toy")
def test_a_new_engine_is_made_by_name_and_automatically_and_named_in_refusals() -> None:
    model = tiny_model()
    for name in ("toy", "auto"):
        engine = make_engine(name, model)
        assert isinstance(engine, ToyEngine) and engine.name == "toy"
        assert scores(engine.search(sentences(5), FixedExit(2, model.blocks), SETTINGS)) == {ToyEngine.SCORE}
    assert automatic_engine(None, int8=False, blocks=9) != "toy"
    assert automatic_engine(None, int8=False, blocks=8) == "toy"
    with pytest.raises(UsageError, match=r"the toy engine has no 8-bit products"):
        make_engine("toy", model, int8=True)
    with pytest.raises(UsageError, match=r"no engine 'tov'; did you mean toy\? known: auto, toy, native, onnx, torch"):
        make_engine("tov", model)


@pytest.mark.usefixtures("toy")
def test_a_policy_that_an_engine_does_not_support_is_left_to_the_plain_step_and_said_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    model, texts, policy = model_for("none"), sentences(6), AlternatingExits()
    assert isinstance(policy, Policy)
    expected = TorchEngine(model).search(texts, policy, SETTINGS)
    assert {left for (best,) in expected for left in best.exits} == {1, 2}
    engine = make_engine("toy", model)
    assert engine.search([], policy, SETTINGS) == []
    assert caplog.records == [], "nothing was searched"
    for _ in range(2):
        assert engine.search(texts, policy, SETTINGS) == expected
        engine.search(texts, FixedExit(1, model.blocks), SETTINGS)
    assert [record.getMessage() for record in caplog.records] == [
        "toy leaves the search to PyTorch in float32: it does not know policies such as alternating"
    ]


def test_what_an_engine_does_not_say_has_a_plain_default() -> None:
    model, texts = model_for("none"), sentences(7)
    engine = ToyEngine(model, name="toy")
    assert engine.search_every_exit(texts, SETTINGS) == TorchEngine(model).search_every_exit(texts, SETTINGS)
    assert engine.executed_flops() is None


@pytest.mark.parametrize("counted", [None, 7])
def test_a_benchmark_asks_any_engine_for_the_flops_that_it_counts(counted: int | None) -> None:
    class Counting(ToyEngine):
        """Counts the same for every sentence, or nothing."""

        flops = 0

        def own_search(
            self, sequences: Sequence[Sequence[int]], policy: Policy, settings: SearchSettings
        ) -> list[list[Hypothesis]]:
            self.flops += (counted or 0) * len(sequences)
            return super().own_search(sequences, policy, settings)

        def executed_flops(self) -> int | None:
            return None if counted is None else self.flops

    model, texts = tiny_model(), sentences(5)
    contestant = OwnContestant("toy", Counting(model, name="toy"), "fp32", FixedExit(1, model.blocks), False)
    for _ in range(2):
        outputs, flops = translate(contestant, contestant.calls(texts, SETTINGS, batch=2), len(texts))
        assert flops == (None if counted is None else 35)
        assert {left for output in outputs for left in output.exits} == {1}
