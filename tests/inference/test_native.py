"""The native engine: the tokens and exits of the plain step for every policy, beam, batch and
instruction set."""

import signal
from dataclasses import replace

import pytest
import torch
from inference.native_searches import found, needs_native, outputs, scores, sentences
from tiny import tiny_model
from walks import POLICIES, SOME_PATTERNS, THRESHOLD_POLICIES, model_for, with_ends

from anydepth.errors import RunError
from anydepth.evaluation.executed import executed_decoder_flops
from anydepth.exits.adaptive import AdaptiveTransformer
from anydepth.exits.halting import GeometricHalting
from anydepth.exits.parsing import parse_policy
from anydepth.exits.policies import FixedExit, ForcedExits, Policy
from anydepth.inference.engines.native import native_engine
from anydepth.inference.engines.native.native_engine import NativeEngine, has_native
from anydepth.inference.engines.torch_engine import TorchEngine
from anydepth.search.beam import search
from anydepth.search.decoding import SearchSettings
from anydepth.text.batches import make_source
from anydepth.text.tokenizer import EOS

INSTRUCTIONS = native_engine._native.instruction_sets() if has_native() else ["plain"]
ALL = [*POLICIES, "forced"]

pytestmark = needs_native


def policy_of(text: str, model: AdaptiveTransformer, count: int) -> Policy:
    if text == "forced":
        return ForcedExits(
            torch.randint(1, model.blocks + 1, (count, 5), generator=torch.Generator().manual_seed(count))
        )
    return parse_policy(text, model)


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


@pytest.mark.parametrize("text", ["fixed:4", "confidence:0.7,0.5,0.6"])
def test_a_search_that_does_not_stop_early_finds_what_the_plain_step_finds(text: str) -> None:
    differ = 0
    for number, length_penalty in enumerate((0.0, 1.0, 2.0)):
        model, texts = model_for(text, seed=number), sentences(40, seed=number)
        with torch.no_grad():  # random models hardly ever end a sentence
            for n in model.config.classifier_exits:
                model.classifier(n)[EOS] += 0.5 * model.classifier(n).mean(dim=0) + 0.3
        policy = parse_policy(text, model)
        settings = SearchSettings(beam=4, best=4, length_penalty=length_penalty, length_ratio=0.5, length_offset=9)
        late = replace(settings, early_stopping=False)
        plain = search(model, *make_source(texts), policy, late)
        differ += outputs(plain) != outputs(search(model, *make_source(texts), policy, settings))
        for instructions in INSTRUCTIONS:
            own = found(NativeEngine(model, instructions=instructions), texts, policy, late)
            assert outputs(own) == outputs(plain), instructions
            assert scores(own) == pytest.approx(scores(plain), abs=1e-4), instructions
    assert differ, "else this shows little"


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


def test_forced_exits_are_those_of_the_sentences_whatever_the_batches_of_the_engine() -> None:
    model, texts = tiny_model(), [*sentences(6, seed=2), [5], [6, 7, 8, 9, 10]]
    policy, settings = policy_of("forced", model, len(texts)), SearchSettings(beam=1, batch_tokens=12)
    plain = outputs(found(TorchEngine(model), texts, policy, settings))
    assert plain == outputs(found(NativeEngine(model), texts, policy, settings))
    assert len({len(text) for text in texts}) > 3, "else nothing is reordered"


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


def test_nothing_is_found_for_nothing() -> None:
    model = tiny_model()
    assert found(NativeEngine(model), [], FixedExit(1, model.blocks), SearchSettings()) == []


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
