"""The native engine: the tokens and exits of the plain step for every policy, beam, batch and
instruction set."""

import random
import signal
from dataclasses import replace

import pytest
import torch
from tiny import SOURCE_VOCAB, tiny_model
from walks import POLICIES, SOME_PATTERNS, THRESHOLD_POLICIES, model_for, with_ends

from anydepth.errors import RunError, UsageError
from anydepth.evaluation.executed import executed_decoder_flops
from anydepth.exits.adaptive import AdaptiveTransformer
from anydepth.exits.halting import GeometricHalting
from anydepth.exits.parsing import parse_policy
from anydepth.exits.policies import FixedExit, ForcedExits, Policy
from anydepth.exits.thresholds import ThresholdExit
from anydepth.inference.engines.choice import automatic_engine, make_engine
from anydepth.inference.engines.engine import Engine
from anydepth.inference.engines.native import native_engine
from anydepth.inference.engines.native.native_engine import NativeEngine, has_native
from anydepth.inference.engines.torch_engine import TorchEngine
from anydepth.search.beam import Hypothesis, search
from anydepth.search.decoding import SearchSettings
from anydepth.text.batches import make_source
from anydepth.text.tokenizer import EOS

INSTRUCTIONS = native_engine._native.instruction_sets() if has_native() else ["plain"]
ALL = [*POLICIES, "forced"]
LOTS = 1_000_000  # of tokens: no limit

pytestmark = pytest.mark.skipif(not has_native(), reason="there was no C++ compiler when anydepth was installed")


def sentences(count: int, *, longest: int = 9, seed: int = 1) -> list[list[int]]:
    randomness = random.Random(seed)
    return [randomness.choices(range(4, SOURCE_VOCAB), k=randomness.randint(1, longest)) for _ in range(count)]


def policy_of(text: str, model: AdaptiveTransformer, count: int) -> Policy:
    if text == "forced":
        return ForcedExits(
            torch.randint(1, model.blocks + 1, (count, 5), generator=torch.Generator().manual_seed(count))
        )
    return parse_policy(text, model)


def found(
    engine: Engine, texts: list[list[int]], policy: Policy, settings: SearchSettings, **limits: int
) -> list[list[Hypothesis]]:
    return engine.search(texts, policy, replace(settings, **{"batch_tokens": LOTS, **limits}))


def outputs(hypotheses: list[list[Hypothesis]]) -> list[list[tuple[list[int], list[int], bool]]]:
    return [[(each.tokens, each.exits, each.has_finished) for each in ranked] for ranked in hypotheses]


def scores(hypotheses: list[list[Hypothesis]]) -> list[float]:
    return [score for ranked in hypotheses for each in ranked for score in [each.score, *each.token_scores]]


@pytest.mark.parametrize("text", ALL)
def test_tokens_exits_and_scores_are_those_of_the_plain_step(text: str) -> None:
    lefts: set[int] = set()
    for beam in (1, 5):
        model = model_for(text, seed=beam)
        for count in (1, 7, 64):
            settings = SearchSettings(beam=beam, best=beam, length_penalty=0.7, length_ratio=0.5, length_offset=4)
            texts, policy = sentences(count, seed=count), policy_of(text, model, count)
            plain = search(model, *make_source(texts), policy, settings)
            for instructions in INSTRUCTIONS:
                own = found(NativeEngine(model, instructions=instructions), texts, policy, settings)
                assert outputs(own) == outputs(plain), instructions
                assert scores(own) == pytest.approx(scores(plain), abs=1e-4), instructions
            lefts |= {left for ranked in plain for each in ranked for left in each.exits}
    assert len(lefts) > 1 or text.startswith("fixed"), "a policy that never chooses would pass anything"


@pytest.mark.parametrize(("text", "units"), [*((text, 0) for text in THRESHOLD_POLICIES), ("geometric:0.6,0.4,0.5", 5)])
def test_thresholds_of_0_and_1_anywhere_give_the_tokens_exits_and_flops_of_the_plain_step(
    text: str, units: int
) -> None:
    model, texts, beams = model_for(text, f"exits.halting_units={units}", seed=2), sentences(4, seed=3), (1, 3)
    short = SearchSettings(beam=1, exact_length=4)
    for number, pattern in enumerate(SOME_PATTERNS):
        policy = parse_policy(with_ends(text, pattern), model)
        settings = SearchSettings(beam=beams[number % 2], length_ratio=0.5, length_offset=4)
        plain = found(TorchEngine(model), texts, policy, settings)
        instructions = INSTRUCTIONS[number % len(INSTRUCTIONS)]
        own = found(NativeEngine(model, instructions=instructions), texts, policy, settings)
        assert outputs(own) == outputs(plain), (pattern, instructions)
        engine, one = NativeEngine(model, is_deferred=False), texts[:1]
        with executed_decoder_flops() as executed:
            found(TorchEngine(model), one, policy, short)
        found(engine, one, policy, short)
        # torch does not count a cosine, which is made of products by elements, nor does the engine
        assert engine.executed_flops() == executed.decoder, pattern


@pytest.mark.parametrize("text", ["uniform:7", "geometric:0.6,0.4,0.5", "confidence:0.7,0.5,0.6"])
@pytest.mark.parametrize("width", [10, 32, 48])
def test_heads_as_wide_as_registers_and_wider(text: str, width: int) -> None:
    sizes = [
        "model.heads=2",
        f"model.encoder.dim={4 * width}",
        f"model.decoder.dim={2 * width}",
        "model.decoder.ffn_dim=70",
    ]
    model = model_for(text, *sizes, seed=3)
    texts, policy = sentences(12, longest=40, seed=5), parse_policy(text, model)
    settings = SearchSettings(beam=4, best=4, exact_length=20)
    plain = search(model, *make_source(texts), policy, settings)
    for instructions in INSTRUCTIONS:
        own = found(NativeEngine(model, instructions=instructions), texts, policy, settings)
        assert outputs(own) == outputs(plain), instructions
        assert scores(own) == pytest.approx(scores(plain), abs=1e-4), instructions


@pytest.mark.parametrize("classifiers", ["tied", "shared", "untied"])
def test_every_kind_of_classifier(classifiers: str) -> None:
    changes = ["model.encoder.dim=12", "model.encoder.ffn_dim=20"] if classifiers == "tied" else []
    model = tiny_model(f"model.classifiers={classifiers}", *changes, is_joint=classifiers == "tied")
    texts, policy = sentences(7), parse_policy("uniform", model)
    settings = SearchSettings(beam=3, best=3)
    assert outputs(found(NativeEngine(model), texts, policy, settings)) == outputs(
        found(TorchEngine(model), texts, policy, settings)
    )


@pytest.mark.parametrize("text", ALL)
def test_deferred_copies_are_immediate_ones_bit_for_bit(text: str) -> None:
    model = model_for(text, seed=2)
    texts, policy = sentences(20), policy_of(text, model, 20)
    settings = SearchSettings(beam=4, best=4)
    for int8 in (False, True):
        late = found(NativeEngine(model, int8=int8), texts, policy, settings)
        soon = found(NativeEngine(model, int8=int8, is_deferred=False), texts, policy, settings)
        assert outputs(late) == outputs(soon)
        assert scores(late) == scores(soon)


def test_deferring_saves_work() -> None:
    model = model_for("fixed:1", seed=1)
    for text, is_less in (("fixed:1", True), (f"fixed:{model.blocks}", False)):
        policy, settings = parse_policy(text, model), SearchSettings(beam=1)
        engines = [NativeEngine(model, is_deferred=is_deferred) for is_deferred in (True, False)]
        for engine in engines:
            found(engine, sentences(5), policy, settings)
        late, soon = (engine.executed_flops() for engine in engines)
        assert (late < soon) == is_less
        assert late <= soon


@pytest.mark.parametrize("text", ["fixed:2", "uniform", "confidence:0.1", "geometric:0.5"])
def test_immediate_copies_execute_what_torch_counts(text: str) -> None:
    model = model_for(text, seed=3)
    policy, settings = parse_policy(text, model), SearchSettings(beam=1)
    engine, (text_tokens,) = NativeEngine(model, is_deferred=False), sentences(1, longest=6)
    with executed_decoder_flops() as executed:
        found(TorchEngine(model), [text_tokens], policy, settings)
    found(engine, [text_tokens], policy, settings)
    assert engine.executed_flops() == executed.decoder


@pytest.mark.parametrize("int8", [False, True])
@pytest.mark.parametrize("beam", [1, 3])
def test_a_sentence_has_the_same_scores_in_every_batch_and_thread_bit_for_bit(int8: bool, beam: int) -> None:
    model = model_for("geometric:0.5", seed=4)
    texts, policy, settings = sentences(30), parse_policy("geometric:0.5", model), SearchSettings(beam=beam, best=beam)
    engine = NativeEngine(model, int8=int8)
    alone = [ranked for each in texts for ranked in found(engine, [each], policy, settings)]
    for limits in ({}, {"batch_sentences": 3}, {"batch_tokens": 1}):
        together = found(engine, texts, policy, settings, **limits)
        assert outputs(together) == outputs(alone)
        assert scores(together) == scores(alone)
    assert outputs(found(NativeEngine(model, int8=int8, threads=3), texts, policy, settings)) == outputs(alone)


def test_an_exact_length_is_kept_and_a_limit_cuts() -> None:
    model = tiny_model()
    policy = FixedExit(2, model.blocks)
    for beam in (1, 2, 5):
        for cut in ({"exact_length": 6}, *({"length_ratio": 0.0, "length_offset": limit} for limit in (1, 2, 3, 7))):
            settings, texts = SearchSettings(beam=beam, best=beam, **cut), sentences(5)
            own, plain = (
                found(engine, texts, policy, settings) for engine in (NativeEngine(model), TorchEngine(model))
            )
            assert outputs(own) == outputs(plain)
            assert scores(own) == pytest.approx(scores(plain), abs=1e-4)
            if settings.exact_length:
                assert all(len(ranked[0].tokens) == 6 and EOS not in ranked[0].tokens for ranked in own)
            else:
                assert all(each.tokens[-1] == EOS for ranked in own for each in ranked)


@pytest.mark.parametrize("instructions", INSTRUCTIONS)
def test_int8_is_close_to_float_and_the_same_on_every_instruction_set(instructions: str) -> None:
    model = model_for("fixed:3", seed=5)
    texts, settings = sentences(40), SearchSettings(beam=1, exact_length=3)
    policy = FixedExit(3, model.blocks)
    exact, rough = (
        found(NativeEngine(model), texts, policy, settings),
        found(NativeEngine(model, int8=True, instructions=instructions), texts, policy, settings),
    )
    plain = found(NativeEngine(model, int8=True, instructions="plain"), texts, policy, settings)
    same = [(a[0], b[0]) for a, b in zip(exact, rough, strict=True) if a[0].tokens == b[0].tokens]
    assert len(same) > 20, "8-bit products change a few words, not most"
    assert scores(rough) != scores(exact)
    assert max(abs(a.score - b.score) for a, b in same) < 0.15
    assert outputs(rough) == outputs(plain)
    assert scores(rough) == pytest.approx(scores(plain), abs=1e-4)


def test_a_watched_module_is_asked_and_not_obeyed() -> None:
    model = model_for("geometric:0.5", seed=1)
    assert isinstance(model.halting, GeometricHalting)
    texts, table = sentences(4), torch.tensor([[1, 4], [2, 2], [4, 1], [3, 3]])
    engine, settings = NativeEngine(model), SearchSettings(beam=2)
    forced = found(engine, texts, ForcedExits(table), settings)
    before = engine.executed_flops()
    watched = found(engine, texts, ForcedExits(table, model.halting, model.blocks), settings)
    assert outputs(watched) == outputs(forced)
    assert engine.executed_flops() - before > before


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


def test_memory_does_not_grow_with_the_number_of_sentences() -> None:
    model = tiny_model()
    engine, settings = NativeEngine(model), SearchSettings(beam=5, exact_length=30)
    nodes = []
    for count in (200, 800):
        found(engine, sentences(4) * (count // 4), FixedExit(2, model.blocks), settings)
        assert engine.counts is not None
        nodes.append(engine.counts.nodes)
    assert nodes[1] < 1.2 * nodes[0]


def test_threads_share_few_sentences_and_one() -> None:
    model = model_for("geometric:0.5", seed=4)
    policy, settings = parse_policy("geometric:0.5", model), SearchSettings(beam=2, best=2)
    for count in (1, 2, 5):
        alone, together = (
            found(NativeEngine(model, threads=threads), sentences(count), policy, settings) for threads in (1, 4)
        )
        assert outputs(alone) == outputs(together) and scores(alone) == scores(together)


def test_what_would_lead_out_of_the_tables_is_refused() -> None:
    model = tiny_model()
    engine, policy, settings = NativeEngine(model), FixedExit(2, model.blocks), SearchSettings(beam=1)
    with pytest.raises(
        UsageError, match=rf"source tokens are numbers from 0 to {SOURCE_VOCAB - 1}, but there are 2 to 700"
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


def test_the_engine_keeps_the_weights_that_it_was_made_with() -> None:
    model = tiny_model()
    engine, policy, settings = NativeEngine(model), FixedExit(3, model.blocks), SearchSettings(beam=2)
    before = found(engine, sentences(6), policy, settings)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(-1.5)
    assert scores(found(engine, sentences(6), policy, settings)) == scores(before)
    with torch.no_grad():
        model.decoder[1].feed_forward.inner.weight[3, 2] = float("nan")
    with pytest.raises(RunError, match=r"decoder.1.feed_forward.inner.weight has numbers that are not finite"):
        NativeEngine(model)


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


def test_nothing_is_found_for_nothing() -> None:
    model = tiny_model()
    assert found(NativeEngine(model), [], FixedExit(1, model.blocks), SearchSettings()) == []


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


@pytest.mark.parametrize("threads", [1, 3])
def test_a_long_search_can_be_interrupted(threads: int) -> None:
    class AlarmError(Exception):
        """What the alarm raises."""

    def ring(number: int, frame: object) -> None:
        raise AlarmError

    model = tiny_model()
    engine, texts = NativeEngine(model, threads=threads), sentences(6) * 400
    before = signal.signal(signal.SIGALRM, ring)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.5)  # when the search has begun
        with pytest.raises(AlarmError):
            found(engine, texts, FixedExit(4, model.blocks), SearchSettings(beam=2, exact_length=200))
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert len(found(engine, texts[:3], FixedExit(4, model.blocks), SearchSettings(beam=2))) == 3
