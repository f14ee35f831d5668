"""Adapters of exits in every engine: the tokens, exits and scores of the plain step, whatever the
policy, the beam and the words."""

from pathlib import Path

import pytest
import torch
from adapters import ADAPTER, WIDTH, adapted_model, stir
from evaluation.translators import SOURCES, make_run, quiet
from export_alone import translate_alone
from inference.native_searches import found, needs_native, outputs, scores, sentences
from inference.test_native import INSTRUCTIONS
from inference.test_onnx import in_onnx
from inference.test_variations import assert_same, searches
from selections import SELECTIONS
from tiny import BLOCKS, DIM, TARGET_VOCAB, tiny_config, tiny_model
from variations import MARIAN

from anydepth.errors import UsageError
from anydepth.exits.adaptive import AdaptiveTransformer
from anydepth.exits.flops import DecoderShape, sentence_flops
from anydepth.exits.parsing import parse_policy
from anydepth.inference.engines.engine import Engine
from anydepth.inference.engines.native.native_engine import NativeEngine
from anydepth.inference.engines.onnx.onnx_engine import OnnxEngine
from anydepth.inference.engines.torch_engine import TorchEngine
from anydepth.inference.export.ctranslate2_folder import export_ctranslate2
from anydepth.inference.export.onnx_folder import describe_export, export_onnx, graph_names
from anydepth.inference.translator import Translator
from anydepth.model.checkpoint import model_tensors, save_tensors
from anydepth.runs.models import load_model
from anydepth.runs.run import Run
from anydepth.search.decoding import SearchSettings
from anydepth.text.tokenizer import EOS

KINDS = ["untied", "shared", "tied"]
POLICIES = [
    "uniform:7",
    "confidence:0.9,0.85,0.8",
    "margin:0.8,0.7,0.7",
    "geometric:0.6,0.4,0.5",
    "shortlist:5:0.9,0.85,0.85",
]
OTHERS = ["fixed:3", "sequence", "multinomial", "similarity:0.74,0.7,0.8"]


def model_of(classifiers: str) -> AdaptiveTransformer:
    return adapted_model("geometric", f"model.classifiers={classifiers}", *MARIAN, seed=8)


@needs_native
@pytest.mark.parametrize("classifiers", KINDS)
def test_the_native_engine_finds_what_the_plain_step_finds(classifiers: str) -> None:
    model = model_of(classifiers)
    plain = searches(model, TorchEngine(model), POLICIES)
    for instructions in INSTRUCTIONS:
        assert_same(searches(model, NativeEngine(model, instructions=instructions), POLICIES), plain)


@pytest.mark.parametrize("classifiers", KINDS)
def test_onnx_finds_what_the_plain_step_finds(classifiers: str, tmp_path: Path) -> None:
    model = model_of(classifiers)
    fast = searches(model, OnnxEngine(in_onnx(model, tmp_path)), POLICIES)
    assert_same(fast, searches(model, TorchEngine(model), POLICIES))


@needs_native
@pytest.mark.parametrize("text", OTHERS)
def test_every_other_policy_is_followed_alike(text: str, tmp_path: Path) -> None:
    model = adapted_model(text, "model.classifiers=tied")
    engines: list[Engine] = [TorchEngine(model), NativeEngine(model), OnnxEngine(in_onnx(model, tmp_path))]
    for beam in (1, 3):
        settings = SearchSettings(beam=beam, best=beam, length_offset=4, words=SELECTIONS["learned"](model))
        plain, *others = (found(engine, sentences(7), parse_policy(text, engine.model), settings) for engine in engines)
        for own in others:
            assert outputs(own) == outputs(plain)
            assert scores(own) == pytest.approx(scores(plain), abs=1e-4)


@needs_native
@pytest.mark.parametrize("int8", [False, True])
@pytest.mark.parametrize("text", ["uniform:3", "confidence:0.7,0.5,0.6", "shortlist:5:0.7,0.6,0.65"])
def test_a_sentence_alone_is_what_it_is_among_others_bit_for_bit(text: str, int8: bool) -> None:
    model = adapted_model(text, "model.classifiers=tied", "model.decoder.dim=48")
    engine, policy = NativeEngine(model, int8=int8), parse_policy(text, model)
    for words in (None, SELECTIONS["table"](model)):
        settings = SearchSettings(beam=2, best=2, exact_length=6, words=words)
        alone = [found(engine, [each], policy, settings)[0] for each in sentences(8)]
        assert found(engine, sentences(8), policy, settings) == alone


@needs_native
@pytest.mark.parametrize("instructions", INSTRUCTIONS)
def test_native_int8_is_close_to_float_and_the_same_on_every_instruction_set(instructions: str) -> None:
    model = adapted_model("uniform:3", "model.classifiers=tied", "model.decoder.dim=48")
    texts, settings, policy = sentences(40), SearchSettings(beam=1, exact_length=2), parse_policy("uniform:3", model)
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
    assert max(abs(a.score - b.score) for a, b in same) < 0.3
    assert outputs(rough) == outputs(plain)


@torch.no_grad()
@pytest.mark.parametrize("int8", [False, True])
def test_the_graph_of_an_adapter_is_the_adapter_and_stays_in_float32(int8: bool, tmp_path: Path) -> None:
    model = model_of("tied")
    graphs, states = in_onnx(model, tmp_path, int8=int8), torch.randn(9, DIM)
    for n in range(1, BLOCKS):
        torch.testing.assert_close(graphs.scored_states(n, states), model.scored_states(n, states))
    assert graphs.scored_states(BLOCKS, states) is states


@needs_native
@pytest.mark.parametrize("text", ["fixed:2", "fixed:4", "confidence:0.7,0.5,0.6", "shortlist:5:0.7,0.6,0.65"])
def test_the_native_engine_executes_what_the_formula_counts(text: str) -> None:
    model = adapted_model(text)
    engine, policy = NativeEngine(model, is_deferred=False), parse_policy(text, model)
    [[best]] = found(engine, [[5, 6, 7, 8]], policy, SearchSettings(beam=1, exact_length=5))
    shape = DecoderShape.of(model.config, TARGET_VOCAB)
    assert shape.adapter == WIDTH
    assert engine.executed_flops() == sentence_flops(shape, best.exits, 5, policy.cost)


def test_an_export_names_and_describes_adapters_only_where_there_are_some() -> None:
    model = tiny_model(ADAPTER)
    names = [f"adapter{n}" for n in range(1, BLOCKS)]
    assert [name for name in graph_names(tiny_config(ADAPTER)) if name.startswith("adapter")] == names
    assert not any(name.startswith("adapter") for name in graph_names(tiny_config()))
    assert "adapter<n>.onnx" in describe_export(model, int8=True, has_points=False)
    assert "adapter" not in describe_export(tiny_model(), int8=True, has_points=False)


def stirred_run(folder: Path) -> Run:
    """A run directory whose adapters do something."""
    run = make_run(folder, ADAPTER)
    model = load_model(run)
    stir(model)
    save_tensors(run.weights_file, model_tensors(model))
    return run


def test_the_files_of_an_export_are_enough_to_translate_at_every_exit(tmp_path: Path) -> None:
    """A threshold of 1 never stops and one of 0 always does, so that no halting module is asked."""
    run, settings = stirred_run(tmp_path), SearchSettings(beam=1, length_ratio=1.0, length_offset=4)
    model, folder = load_model(run), export_onnx(run, int8=False, say=quiet)
    outputs_at = []
    for n in range(1, BLOCKS + 1):
        policy, thresholds = parse_policy(f"fixed:{n}", model), [1.0] * (n - 1) + [0.0] * (BLOCKS - n)
        for line in ("der hund", "die katze schläft heute gern"):
            ids = run.tokenizers()[0].encode(line)
            [[expected]] = found(TorchEngine(model), [ids], policy, settings)
            limit = int(settings.limits(torch.ones(1, len(ids) + 1, dtype=torch.bool), max_length=256))
            tokens, exits = translate_alone(folder, [*ids, EOS], thresholds, limit=limit)
            assert (tokens, exits) == (expected.tokens, expected.exits)
            outputs_at.append(tokens)
    assert len({tuple(tokens) for tokens in outputs_at}) > 4, "else this shows little"


@needs_native
def test_a_run_with_adapters_is_translated_alike_by_every_engine_and_cut_for_ctranslate2_at_its_end_only(
    tmp_path: Path,
) -> None:
    run = stirred_run(tmp_path)
    for int8 in (False, True):
        export_onnx(run, int8=int8, say=quiet)
    lines = [line for line in SOURCES if line]
    plain, *others = (
        Translator.load(run.folder, engine=engine).translate(lines, policy="uniform:5")
        for engine in ("torch", "native", "onnx")
    )
    for own in others:
        assert [(each.tokens, each.exits) for each in own] == [(each.tokens, each.exits) for each in plain]
    for engine in ("native", "onnx"):
        assert all(each.tokens for each in Translator.load(run.folder, engine=engine, int8=True).translate(lines))
    with pytest.raises(
        UsageError, match=r"^exit 2 has an adapter .*, which CTranslate2's format cannot express; export exit 4"
    ):
        export_ctranslate2(run, exit=2, quantization=None, to=None, say=quiet)
    assert (export_ctranslate2(run, exit=BLOCKS, quantization=None, to=None, say=quiet) / "model.bin").exists()
