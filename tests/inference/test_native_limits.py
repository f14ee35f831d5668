"""What the native engine does not search by itself: policies and models that it leaves to others,
input that it refuses, and engines by name."""

from dataclasses import replace

import pytest
import torch
from inference.native_searches import found, needs_native, outputs, sentences
from tiny import SOURCE_VOCAB, tiny_model
from walks import model_for

from anydepth.errors import UsageError
from anydepth.exits.parsing import parse_policy
from anydepth.exits.policies import FixedExit, ForcedExits
from anydepth.exits.thresholds import ThresholdExit
from anydepth.inference.engines.choice import automatic_engine, make_engine
from anydepth.inference.engines.native import native_engine
from anydepth.inference.engines.native.native_engine import NativeEngine
from anydepth.inference.engines.torch_engine import TorchEngine
from anydepth.search.decoding import SearchSettings

pytestmark = needs_native


def test_a_family_of_thresholds_that_it_does_not_know_is_left_to_the_plain_step_and_said_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    model, texts, settings = model_for("confidence"), sentences(3), SearchSettings(beam=2)
    known = parse_policy("confidence:0.7,0.5,0.6", model)
    assert isinstance(known, ThresholdExit)
    engine, expected = NativeEngine(model), outputs(found(TorchEngine(model), texts, known, settings))
    for family in ("entropy", "sequence"):  # a signal that does not exist, and a rule that is no signal
        policy = replace(known, family=family)
        caplog.clear()
        assert engine.supports(policy) == f"it does not know the signal of {family}"
        for _ in range(2):
            assert outputs(found(engine, texts, policy, settings)) == expected
        assert [record.getMessage() for record in caplog.records] == [
            f"native leaves the search to PyTorch in float32: it does not know the signal of {family}"
        ]
    assert engine.supports(known) is None
    assert outputs(found(engine, texts, known, settings)) == expected
    assert len(caplog.records) == 1, "nothing to say of what it knows"


def test_a_policy_of_a_new_kind_is_left_to_the_plain_step() -> None:
    class Own(FixedExitLike):
        """A policy that the compiled search has never heard of."""

    model = tiny_model()
    texts, settings = sentences(3), SearchSettings(beam=2)
    policy = Own(FixedExit(2, model.blocks))
    assert outputs(found(NativeEngine(model), texts, policy, settings)) == outputs(
        found(TorchEngine(model), texts, FixedExit(2, model.blocks), settings)
    )


class FixedExitLike:
    """Passes everything on to a fixed exit, without being one."""

    def __init__(self, inner: FixedExit) -> None:
        self.inner, self.blocks, self.name, self.cost = inner, inner.blocks, "own", inner.cost
        self.plan, self.decisions = inner.plan, inner.decisions


@pytest.mark.parametrize("more_blocks", [0, 5], ids=["its own policy", "one left to the plain step"])
def test_what_would_lead_out_of_the_tables_is_refused(more_blocks: int) -> None:
    model = tiny_model()
    engine, settings = NativeEngine(model), SearchSettings(beam=1)
    policy = FixedExit(2, model.blocks + more_blocks)
    assert (engine.supports(policy) is None) == (more_blocks == 0)
    with pytest.raises(
        UsageError, match=rf"source tokens are numbers from 0 to {SOURCE_VOCAB - 1}, but there are 5 to 700"
    ):
        found(engine, [[5, 700]], policy, settings)
    with pytest.raises(UsageError, match=r"source tokens are numbers from 0"):
        found(engine, [[5, -7]], policy, settings)
    with pytest.raises(UsageError, match=r"a source of 300 tokens is longer than model.max_length = 256; cut it"):
        found(engine, [[5] * 300], policy, settings)
    with pytest.raises(UsageError, match=r"leave no room for any output"):
        found(engine, [[5]], policy, SearchSettings(length_ratio=0.0, length_offset=0))


def test_a_policy_of_another_model_is_left_to_the_plain_step() -> None:
    own, other = (model_for("geometric:0.5", seed=seed) for seed in (1, 2))
    texts, settings = sentences(8), SearchSettings(beam=1)
    for policy in (
        parse_policy("geometric:0.6,0.4,0.5", other),
        ForcedExits(torch.full((8, 1), 2), other.halting, other.blocks),  # type: ignore[arg-type]
    ):
        plain = found(TorchEngine(own), texts, policy, settings)
        assert outputs(found(NativeEngine(own), texts, policy, settings)) == outputs(plain)
        assert outputs(found(NativeEngine(tiny_model()), texts, policy, settings)) == outputs(
            found(TorchEngine(tiny_model()), texts, policy, settings)
        )
    with pytest.raises(AssertionError):
        found(NativeEngine(own), texts, FixedExit(own.blocks + 1, own.blocks + 1), settings)


def test_more_blocks_than_it_can_count_are_left_to_others() -> None:
    model = tiny_model("model.blocks=65")
    assert make_engine("auto", model).name == "torch"
    with pytest.raises(UsageError, match=r"up to 64 decoder blocks and this model has 65; use --engine torch"):
        NativeEngine(model)
    deep = tiny_model("model.blocks=64")
    policy, settings = FixedExit(64, 64), SearchSettings(beam=1, exact_length=3)
    assert outputs(found(NativeEngine(deep), sentences(3), policy, settings)) == outputs(
        found(TorchEngine(deep), sentences(3), policy, settings)
    )


def test_engines_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    model = tiny_model()
    assert make_engine("auto", model).name == "native"
    assert make_engine("native", model, int8=True).name == "native-int8"
    assert make_engine("torch", model).name == "torch"
    with pytest.raises(
        UsageError, match=r"there is no engine 'nativ'; did you mean native\? known: auto, native, onnx, torch"
    ):
        make_engine("nativ", model)
    with pytest.raises(UsageError, match=r"the torch engine has no 8-bit products; leave out --int8"):
        make_engine("torch", model, int8=True)
    with pytest.raises(UsageError, match=r"needs the export of a run"):
        make_engine("onnx", model)
    monkeypatch.setattr(native_engine, "_native", None)
    monkeypatch.setattr(native_engine, "why_not", "no such thing", raising=False)
    with pytest.raises(
        UsageError,
        match=r"cannot be loaded \(no such thing\); .* C\+\+ compiler .* or use --engine onnx or --engine torch",
    ):
        make_engine("native", model)


def test_without_a_compiler_the_plain_step_is_automatic(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("anydepth.inference.engines.native.native_engine.has_native", lambda: False)
    assert automatic_engine(None, int8=False) == "torch"
    with pytest.raises(
        UsageError, match=r"--int8 needs the native engine, which was not built here, or an ONNX export"
    ):
        automatic_engine(None, int8=True)
