"""The native engine among selected words: what the plain step finds, for every policy, kind of
selection and instruction set."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from inference.native_searches import found, needs_native, outputs, scores, sentences
from inference.test_native import ALL, INSTRUCTIONS, policy_of
from selections import SELECTIONS, every_word, table_selection
from walks import model_for

from anydepth.evaluation.executed import executed_decoder_flops
from anydepth.exits.adaptive import AdaptiveTransformer
from anydepth.exits.parsing import parse_policy
from anydepth.inference.engines.native.native_engine import NativeEngine
from anydepth.inference.engines.torch_engine import TorchEngine
from anydepth.search.beam import search
from anydepth.search.decoding import SearchSettings
from anydepth.text.batches import make_source

pytestmark = needs_native

WIDE = ["model.encoder.dim=16", "model.decoder.dim=64", "model.decoder.ffn_dim=32", "model.heads=2"]


def wide_model(text: str, classifiers: str, vocab: int = 150, *, width: int = 64) -> AdaptiveTransformer:
    """A model as wide as registers, or of another width, with more words than they hold."""
    small = model_for(text, *WIDE, f"model.decoder.dim={width}", f"model.classifiers={classifiers}", seed=4)
    torch.manual_seed(4)
    for matrix in (small.target_embedding.weight, *small.classifiers):
        matrix.data = torch.randn(vocab, matrix.shape[1]) * 3 * matrix.shape[1] ** -0.5
    small.target_embedding.num_embeddings = vocab
    return small


@pytest.mark.parametrize("kind", SELECTIONS)
@pytest.mark.parametrize("text", ALL)
def test_tokens_exits_scores_and_numbers_of_words_are_those_of_the_plain_step(text: str, kind: str) -> None:
    lefts, sizes = set(), set()
    for beam in (1, 5):
        model = model_for(text, seed=beam)
        words = SELECTIONS[kind](model, seed=beam)
        settings = SearchSettings(beam=beam, best=beam, length_ratio=0.5, length_offset=4, words=words)
        for count in (1, 7, 40):
            texts, policy = sentences(count, seed=count), policy_of(text, model, count)
            plain = search(model, *make_source(texts), policy, settings)
            for instructions in INSTRUCTIONS:
                own = found(NativeEngine(model, instructions=instructions), texts, policy, settings)
                assert outputs(own) == outputs(plain), instructions
                assert scores(own) == pytest.approx(scores(plain), abs=1e-4), instructions
                assert [[each.words for each in ranked] for ranked in own] == [
                    [each.words for each in ranked] for ranked in plain
                ]
            lefts |= {left for ranked in plain for each in ranked for left in each.exits}
            sizes |= {ranked[0].words for ranked in plain}
    assert len(lefts) > 1 or text.startswith("fixed"), "a policy that never chooses would pass anything"
    assert len(sizes) > 2, "else sentences share their words"


@pytest.mark.parametrize("text", ["confidence:0.2,0.3,0.3", "margin:0.1,0.2,0.2", "shortlist:6:0.2,0.5,0.5"])
@pytest.mark.parametrize("classifiers", ["shared", "untied"])
def test_more_words_than_a_register_holds(text: str, classifiers: str) -> None:
    model = wide_model(text, classifiers)
    texts, policy = sentences(12, seed=5), parse_policy(text, model)
    settings = SearchSettings(beam=4, best=4, exact_length=12, words=table_selection(model, per_piece=4, always=30))
    plain = search(model, *make_source(texts), policy, settings)
    for instructions in INSTRUCTIONS:
        own = found(NativeEngine(model, instructions=instructions), texts, policy, settings)
        assert outputs(own) == outputs(plain), instructions
        assert scores(own) == pytest.approx(scores(plain), abs=1e-4), instructions
    assert len({left for ranked in plain for each in ranked for left in each.exits}) > 1


@pytest.mark.parametrize("text", ["fixed:2", "confidence:0.2,0.3,0.3", "margin:0.1,0.2,0.2"])
def test_a_selection_of_all_words_changes_nothing_and_in_8_bits_not_even_the_last_bit(text: str) -> None:
    for width in (12, 64, 96):
        model = model_for(text, f"model.decoder.dim={width}", "model.heads=4", seed=width)
        texts, policy, words = sentences(9, seed=2), parse_policy(text, model), every_word(model)
        settings = SearchSettings(beam=3, best=3, exact_length=9)
        for instructions in INSTRUCTIONS:
            for int8 in (False, True):
                engine = NativeEngine(model, int8=int8, instructions=instructions)
                plain = found(engine, texts, policy, settings)
                own = found(engine, texts, policy, replace(settings, words=words))
                assert outputs(own) == outputs(plain)
                assert scores(own) == (scores(plain) if int8 else pytest.approx(scores(plain), abs=1e-4))


@pytest.mark.parametrize("words", [16, 63, 64, 65, 150])
def test_gathered_words_score_as_in_the_whole_classifier_whether_they_fill_their_panels_or_not(words: int) -> None:
    for width in (12, 22, 64):
        model = wide_model("fixed:2", "untied", words, width=width)
        texts, policy = sentences(5, seed=2), parse_policy("confidence:0.2,0.3,0.3", model)
        settings = SearchSettings(beam=3, best=3, exact_length=6)
        for instructions in INSTRUCTIONS:
            engine = NativeEngine(model, int8=True, instructions=instructions)
            own = found(engine, texts, policy, replace(settings, words=every_word(model)))
            plain = found(engine, texts, policy, settings)
            assert outputs(own) == outputs(plain)
            assert scores(own) == scores(plain), (width, instructions)


def test_a_sentence_alone_is_what_it_is_among_others_bit_for_bit() -> None:
    model = model_for("confidence", seed=3)
    policy, texts = parse_policy("confidence:0.2,0.3,0.3", model), sentences(30, seed=8)
    for int8 in (False, True):
        engine = NativeEngine(model, int8=int8)
        settings = SearchSettings(beam=3, best=3, words=table_selection(model))
        together = found(engine, texts, policy, settings)
        alone = [found(engine, [each], policy, settings)[0] for each in texts]
        assert together == alone


@pytest.mark.parametrize("kind", SELECTIONS)
@pytest.mark.parametrize("text", ["fixed:3", "confidence:0.2,0.3,0.3", "shortlist:4:0.3,0.5,0.5"])
def test_executed_flops_are_those_of_the_plain_step(text: str, kind: str) -> None:
    model, texts = model_for(text, seed=2), sentences(1, seed=3)
    settings = SearchSettings(beam=1, exact_length=6, words=SELECTIONS[kind](model))
    policy, engine = parse_policy(text, model), NativeEngine(model, is_deferred=False)
    with executed_decoder_flops() as executed:
        found(TorchEngine(model), texts, policy, settings)
    found(engine, texts, policy, settings)
    assert engine.executed_flops() == executed.decoder


@pytest.mark.parametrize(
    "change",
    [
        {"always": [2, 23]},
        {"always": [-1, 2]},
        {"copies": [0] * 18 + [23]},
        {"bytes": [99]},
        {"is_spelled": [True]},
        {"starts": [0, 1]},
        {"starts": [0] * 19 + [2], "words": [3]},
        {"starts": [0] * 18 + [1, 0], "words": []},
        {"starts": [0] * 19 + [1], "words": [23]},
        {"weight": np.zeros((23, 8), np.float32), "bias": np.zeros(23, np.float32)},
        {"weight": np.zeros((23, 16), np.float32), "bias": np.zeros(5, np.float32)},
        {"weight": np.zeros((23, 16), np.float32)},
    ],
    ids=lambda change: " ".join(change),
)
def test_numbers_that_would_lead_out_of_the_models_tables_are_refused(change: dict[str, Any]) -> None:
    engine = NativeEngine(model_for("fixed:1")).engine
    given: dict[str, Any] = {"always": [2, 5], "copies": [-1] * 19}
    engine.selection(**given)
    with pytest.raises(ValueError, match=r"word selection is of another (vocabulary|model)"):
        engine.selection(**{**given, **change})


def test_the_selections_used_last_are_kept_and_no_more() -> None:
    model = model_for("fixed:1")
    engine, selections = NativeEngine(model), [table_selection(model, seed=seed) for seed in range(12)]
    kept = [engine.native_selection(words) for words in selections]
    assert engine.native_selection(selections[-1]) is kept[-1], "nothing is made twice"
    assert len(engine.selections) == 8 and engine.native_selection(None) is None
