"""Models that vary as MarianMT's do, in every engine: the tokens, exits and scores of the plain step,
and words that a bias bans."""

import functools
import math
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from evaluation.translators import SOURCES, make_run, quiet
from inference.native_searches import found, needs_native, outputs, scores, sentences
from inference.test_native import INSTRUCTIONS
from inference.test_onnx import in_onnx
from selections import SELECTIONS, every_word
from tiny import BLOCKS, DIM
from variations import ACTIVATIONS, BANS, MARIAN, VARIATIONS, ban, named
from walks import model_for

from anydepth.config.loading import load_config, save_config
from anydepth.exits.adaptive import AdaptiveTransformer
from anydepth.exits.parsing import parse_policy
from anydepth.exits.policies import FixedExit
from anydepth.inference.engines.engine import Engine
from anydepth.inference.engines.native.native_engine import NativeEngine
from anydepth.inference.engines.onnx.onnx_engine import OnnxEngine
from anydepth.inference.engines.torch_engine import TorchEngine
from anydepth.inference.export.onnx_folder import export_onnx
from anydepth.inference.translator import Translator
from anydepth.model.transformer import sinusoids
from anydepth.search.beam import Hypothesis
from anydepth.search.decoding import SearchSettings

POLICIES = [
    "fixed:3",
    "confidence:0.7,0.5,0.6",
    "margin:0.6,0.3,0.5",
    "geometric:0.6,0.4,0.5",
    "shortlist:5:0.7,0.6,0.65",
]
SHORT = {"length_ratio": 0.5, "length_offset": 4}
BANNED = (7, 11, 19)


def varied_model(*changes: str) -> AdaptiveTransformer:
    """A model with a halting module, so that it can follow every policy, and a bias that matters."""
    model = model_for("geometric", *changes, seed=3)
    with torch.no_grad():
        if model.output_bias is not None:
            model.output_bias *= 3
    return model


def searches(
    model: AdaptiveTransformer, engine: Engine, policies: Sequence[str] = POLICIES
) -> list[list[list[Hypothesis]]]:
    """What the engine finds with every policy, beams of 1 and 3, with and without a selection."""
    every = []
    for text in policies:
        policy = parse_policy(text, engine.model)
        for number, beam in enumerate((1, 3, 1, 3)):
            words = None if number < 2 else SELECTIONS["table"](model)
            settings = SearchSettings(beam=beam, best=beam, words=words, **SHORT)
            every.append(found(engine, sentences(6, seed=beam), policy, settings))
    return every


@functools.cache
def plain_searches(*changes: str, bias: float | None = None) -> list[list[list[Hypothesis]]]:
    """What the plain step finds with such a model; with a bias that bans words."""
    model = varied_model(*changes)
    if bias is not None:
        ban(model, *BANNED, bias=bias)
    return searches(model, TorchEngine(model))


def assert_same(own: list[list[list[Hypothesis]]], plain: list[list[list[Hypothesis]]]) -> None:
    """Tokens and exits are equal, and scores nearly."""
    for mine, expected in zip(own, plain, strict=True):
        assert outputs(mine) == outputs(expected)
        assert scores(mine) == pytest.approx(scores(expected), abs=1e-4)
    lefts = {left for each in plain for ranked in each for hypothesis in ranked for left in hypothesis.exits}
    assert lefts == set(range(1, BLOCKS + 1)), "else this shows little"


def produced(every: list[list[list[Hypothesis]]]) -> set[int]:
    """All words of some searches."""
    return {token for each in every for ranked in each for hypothesis in ranked for token in hypothesis.tokens}


@needs_native
@pytest.mark.parametrize("changes", VARIATIONS, ids=named)
def test_the_native_engine_finds_what_the_plain_step_finds(changes: tuple[str, ...]) -> None:
    model = varied_model(*changes)
    for instructions in INSTRUCTIONS:
        assert_same(searches(model, NativeEngine(model, instructions=instructions)), plain_searches(*changes))


@pytest.mark.parametrize("changes", VARIATIONS, ids=named)
def test_onnx_finds_what_the_plain_step_finds(changes: tuple[str, ...], tmp_path: Path) -> None:
    model = varied_model(*changes)
    assert_same(searches(model, OnnxEngine(in_onnx(model, tmp_path))), plain_searches(*changes))


@pytest.mark.parametrize("positions", ["sinusoidal", "marian"])
@torch.no_grad()
def test_onnx_embeds_a_position_of_any_length_as_the_plain_step_does(positions: str, tmp_path: Path) -> None:
    model = model_for("fixed:3", f"model.positions={positions}", "model.scale_embeddings=false")
    embedding = in_onnx(model, tmp_path).programs["embedding"]
    tokens, every = torch.tensor([5, 9, 7]), sinusoids(4000, DIM, model.config.positions)
    for position in (0, 1, 511, 3999):
        (states,) = embedding(tokens=tokens.numpy(), position=np.array([position]))
        expected = model.target_embedding.weight[tokens] + every[position]
        torch.testing.assert_close(torch.from_numpy(states), expected, atol=1e-6, rtol=0)


def test_every_setting_changes_what_is_found() -> None:
    ways = [(), *((change,) for change in (*MARIAN, "model.activation=gelu", "model.scale_embeddings=false"))]
    found_ways = []
    for changes in ways:
        model = model_for("fixed:3", *changes, seed=3)
        found_ways.append(scores(found(TorchEngine(model), sentences(3), FixedExit(3, BLOCKS), SearchSettings(beam=2))))
    assert all(one != other for place, one in enumerate(found_ways) for other in found_ways[:place])


@needs_native
@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("factor", [0.01, 60.0])
def test_native_activations_are_right_near_zero_and_far_from_it(activation: str, factor: float) -> None:
    model = model_for("fixed:3", f"model.activation={activation}", "model.decoder.ffn_dim=37", seed=4)
    with torch.no_grad():
        for block in (*model.encoder, *model.decoder):
            block.feed_forward.inner.weight *= factor
            block.feed_forward.inner.bias *= factor
            block.feed_forward.outer.weight /= factor
    settings = SearchSettings(beam=3, best=3, exact_length=9)
    plain = found(TorchEngine(model), sentences(7), FixedExit(4, BLOCKS), settings)
    for instructions in INSTRUCTIONS:
        own = found(NativeEngine(model, instructions=instructions), sentences(7), FixedExit(4, BLOCKS), settings)
        assert outputs(own) == outputs(plain)
        assert scores(own) == pytest.approx(scores(plain), abs=1e-4)


@needs_native
@pytest.mark.parametrize("int8", [False, True])
@pytest.mark.parametrize("activation", ["gelu", "swish"])
def test_an_activation_is_the_same_in_every_batch_and_number_of_threads_bit_for_bit(
    activation: str, int8: bool
) -> None:
    sizes = ("model.decoder.dim=64", "model.decoder.ffn_dim=2501", f"model.activation={activation}")
    model = model_for("fixed:3", *sizes, seed=2)
    texts, settings = sentences(8), SearchSettings(beam=2, best=2, exact_length=6)
    engine, policy = NativeEngine(model, int8=int8), FixedExit(3, BLOCKS)
    alone = [found(engine, [each], policy, settings)[0] for each in texts]
    assert found(engine, texts, policy, settings) == alone
    shared = NativeEngine(model, int8=int8, threads=3)
    assert [found(shared, [each], policy, settings)[0] for each in texts] == alone


@needs_native
@pytest.mark.parametrize("changes", [MARIAN, ("model.activation=gelu", *MARIAN[1:])], ids=named)
@pytest.mark.parametrize("instructions", INSTRUCTIONS)
def test_native_int8_is_close_to_float_and_the_same_on_every_instruction_set(
    changes: tuple[str, ...], instructions: str
) -> None:
    model = model_for("fixed:3", *changes, seed=5)
    texts, settings, policy = sentences(40), SearchSettings(beam=1, exact_length=3), FixedExit(3, BLOCKS)
    exact, rough, plain = (
        found(engine, texts, policy, settings)
        for engine in (
            NativeEngine(model),
            NativeEngine(model, int8=True, instructions=instructions),
            NativeEngine(model, int8=True, instructions="plain"),
        )
    )
    same = [(a[0], b[0]) for a, b in zip(exact, rough, strict=True) if a[0].tokens == b[0].tokens]
    assert len(same) > 20, "8-bit products change a few words, not most"
    assert scores(rough) != scores(exact)
    assert max(abs(a.score - b.score) for a, b in same) < 0.15
    assert outputs(rough) == outputs(plain)
    assert scores(rough) == pytest.approx(scores(plain), abs=1e-4)


@needs_native
@pytest.mark.parametrize("text", ["fixed:2", "confidence:0.2,0.3,0.3", "margin:0.1,0.2,0.2"])
def test_in_8_bits_gathered_words_have_the_bias_of_the_whole_classifier_bit_for_bit(text: str) -> None:
    for width in (12, 64, 96):
        model = model_for(text, f"model.decoder.dim={width}", *MARIAN, seed=width)
        policy, settings = parse_policy(text, model), SearchSettings(beam=3, best=3, exact_length=9)
        for instructions in INSTRUCTIONS:
            engine = NativeEngine(model, int8=True, instructions=instructions)
            plain = found(engine, sentences(9), policy, settings)
            own = found(engine, sentences(9), policy, replace(settings, words=every_word(model)))
            assert outputs(own) == outputs(plain)
            assert scores(own) == scores(plain)


@torch.no_grad()
def test_onnx_int8_logits_are_close_to_those_of_the_model(tmp_path: Path) -> None:
    model = model_for("fixed:3", "model.encoder.dim=64", "model.decoder.dim=48", "model.decoder.ffn_dim=96", *MARIAN)
    small = in_onnx(model, tmp_path, int8=True)
    source = torch.randint(4, 19, (5, 9), generator=torch.Generator().manual_seed(1))
    hidden = torch.randn(6, 48, generator=torch.Generator().manual_seed(1))
    for exact, rounded in (
        (model.encode(source, source > 0), small.encode(source, source > 0)),
        (model.logits_at(2, hidden), small.logits_at(2, hidden)),
    ):
        error = (exact - rounded).norm() / exact.norm()
        assert 0 < error < 0.05


@needs_native
@pytest.mark.parametrize("bias", BANS)
@pytest.mark.parametrize("engine", ["torch", "native", "native-int8", "onnx", "onnx-int8"])
def test_a_word_that_the_bias_bans_is_never_produced_and_nothing_is_not_a_number(
    engine: str, bias: float, tmp_path: Path
) -> None:
    assert produced(plain_searches(*MARIAN)) & set(BANNED), "else there is nothing to ban"
    model = varied_model(*MARIAN)
    ban(model, *BANNED, bias=bias)
    int8 = engine.endswith("int8")
    match engine.removesuffix("-int8"):
        case "torch":
            every = plain_searches(*MARIAN, bias=bias)
        case "native":
            every = searches(model, NativeEngine(model, int8=int8))
        case _:
            every = searches(model, OnnxEngine(in_onnx(model, tmp_path, int8=int8)))
    assert not produced(every) & set(BANNED)
    assert all(math.isfinite(score) for each in every for score in scores(each))
    if not int8:
        assert_same(every, plain_searches(*MARIAN, bias=bias))


@needs_native
@pytest.mark.parametrize("bias", BANS)
def test_signals_are_numbers_where_the_bias_leaves_one_word(bias: float, tmp_path: Path) -> None:
    """Margins have no second word then, and the only word is certain."""
    model = varied_model(*MARIAN)
    ban(model, *(word for word in range(len(model.output_bias)) if word != 9), bias=bias)
    engines: list[Engine] = [
        TorchEngine(model),
        NativeEngine(model),
        NativeEngine(model, int8=True),
        OnnxEngine(in_onnx(model, tmp_path)),
    ]
    for text in ("confidence:0.99", "margin:0.99", "shortlist:5:0.99"):
        for engine in engines:
            settings = SearchSettings(beam=1, exact_length=3)
            for (best,) in found(engine, sentences(4), parse_policy(text, engine.model), settings):
                assert (best.tokens, best.exits, best.token_scores) == ([9] * 3, [1] * 3, [0] * 3), engine.name


@needs_native
def test_a_run_of_such_a_model_is_translated_alike_by_every_engine(tmp_path: Path) -> None:
    run = make_run(tmp_path, *MARIAN)
    for int8 in (False, True):
        export_onnx(run, int8=int8, say=quiet)
    lines = [line for line in SOURCES if line]
    plain, *others = (
        Translator.load(run.folder, engine=engine).translate(lines, policy="confidence:0.2")
        for engine in ("torch", "native", "onnx")
    )
    for own in others:
        assert [(each.tokens, each.exits) for each in own] == [(each.tokens, each.exits) for each in plain]
    for engine in ("native", "onnx"):
        assert all(each.tokens for each in Translator.load(run.folder, engine=engine, int8=True).translate(lines))


def test_a_run_whose_settings_do_not_have_the_variations_loads_with_what_it_was(tmp_path: Path) -> None:
    run = make_run(tmp_path)
    before = Translator.load(run.folder, engine="torch").translate(SOURCES)
    new = re.compile(r"^(activation|positions|scale_embeddings|output_bias) = .*\n", re.MULTILINE)
    old_text, removed = new.subn("", run.config_file.read_text(encoding="utf-8"))
    assert removed == 4
    (old := tmp_path / "old.toml").write_text(old_text, encoding="utf-8")
    assert load_config(old) == run.config
    save_config(load_config(old), run.config_file)
    assert Translator.load(run.folder, engine="torch").translate(SOURCES) == before
