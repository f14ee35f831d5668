"""Adopted models: the logits, the outputs and the texts of transformers, in a run like any other."""

import importlib.util
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from marian_folders import (
    changed_json,
    drawn_shape,
    loaded_marian,
    save_marian,
    small_pairs,
    their_outputs,
    their_tokenizer,
)

from anydepth.inference.adopt.adoption import adopt
from anydepth.inference.checking import check_folder
from anydepth.inference.engines.native.native_engine import has_native
from anydepth.inference.export.onnx_folder import export_onnx
from anydepth.inference.translator import Translator
from anydepth.messages.say import say_nothing
from anydepth.runs.run import Run
from anydepth.runs.vouching import seal_run
from anydepth.search.decoding import DecodingOptions
from anydepth.text.batches import make_batch, make_source
from anydepth.text.marian import MarianTokenizer
from anydepth.text.tokenizer import BOS, EOS, PAD, UNK
from anydepth.text.tokens import TokenPairs, TokenSide

LINES = [german for german, _ in small_pairs()[:16]]
MANY = [german for german, _ in small_pairs()[:50]]
TIE = 1e-4
VARIED = {
    "gelu": {"activation_function": "gelu", "scale_embedding": False},
    "relu, separate, float16": {"activation_function": "relu", "is_separate": True, "is_half": True},
    "own classifier": {"tie_word_embeddings": False},
    "own classifier, separate": {"tie_word_embeddings": False, "is_separate": True, "d_model": 36},
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small MarianMT model as transformers saves it."""
    place = tmp_path_factory.mktemp("marian") / "model"
    save_marian(place)
    return place


@pytest.fixture(scope="module")
def run(folder: Path) -> Path:
    """The same, adopted."""
    return adopt(folder, folder.parent / "run", say=say_nothing).folder


def adopted(place: Path, **shape: Any) -> tuple[Any, Translator]:
    """A model of that shape by transformers, and the translator of the run that it becomes."""
    theirs = save_marian(place / "model", **shape)
    own = adopt(place / "model", place / "run", say=say_nothing)
    return theirs, Translator.load(own.folder, engine="torch")


def assert_same_logits(theirs: Any, own: Translator, lines: list[str]) -> None:
    """All logits of words that may be produced are within 1e-4, for any prefixes."""
    limit = own.model.config.max_length
    sources = [ids[:limit] for ids in own.source_tokenizer.encode_lines(lines)]
    targets = [ids[:limit] for ids in own.target_tokenizer.encode_lines([english for _, english in small_pairs()])]
    pairs = TokenPairs(TokenSide.from_sentences(sources), TokenSide.from_sentences(targets[: len(sources)]))
    batch = make_batch(pairs, np.arange(len(sources)))
    source_rows, target_rows = (
        torch.tensor([0 if row is None else row for row in each.vocabulary.rows])
        for each in (own.source_tokenizer, own.target_tokenizer)
        if isinstance(each, MarianTokenizer)
    )
    with torch.inference_mode():
        memory = own.model.encode(batch.source, batch.source_mask)
        states = own.model.decode(batch.target_inputs, memory, batch.source_mask)[-1]
        ours = own.model.logits_at(own.model.blocks, states.flatten(0, 1)).view(*states.shape[:2], -1)
        expected = theirs(
            input_ids=source_rows[batch.source],
            attention_mask=batch.source_mask.long(),
            decoder_input_ids=target_rows[batch.target_inputs],
        ).logits
    mask = batch.target_inputs != PAD
    words = [EOS, *range(UNK + 1, len(target_rows))]
    difference = (ours[:, :, words] - expected[:, :, target_rows[words]])[mask].abs().max()
    assert difference < 1e-4, difference
    assert mask.sum() > 20 and expected.std() > 0.1, "else this shows little"


def outputs(own: Translator, lines: list[str], *, beam: int) -> list[list[int | None]]:
    """The rows of the folder's vocabulary that we produce for each line."""
    limit, target = own.model.config.max_length, own.target_tokenizer
    assert isinstance(target, MarianTokenizer)
    encoded = [ids[:limit] for ids in own.source_tokenizer.encode_lines(lines)]
    found = own.engine.search(encoded, own.policy(None), DecodingOptions(beam=beam).resolved(own.config))
    return [[target.vocabulary.rows[token] for token in best.tokens] for best, *_ in found]


def token_scores(own: Translator, line: str, rows: list[Any]) -> list[float]:
    """The log-probabilities of an output, by the plain model."""
    limit, target = own.model.config.max_length, own.target_tokenizer
    assert isinstance(target, MarianTokenizer)
    tokens = [target.vocabulary.ids[row] for row in rows]
    source, mask = make_source([own.source_tokenizer.encode(line)[:limit]])
    with torch.inference_mode():
        memory = own.model.encode(source, mask)
        states = own.model.decode(torch.tensor([[BOS, *tokens[:-1]]]), memory, mask)[-1, 0]
        log_probs = own.model.logits_at(own.model.blocks, states).log_softmax(dim=-1)
    return log_probs[torch.arange(len(tokens)), tokens].tolist()


def is_tie(own: Translator, line: str, ours: list[Any], theirs: list[Any], *, beam: int) -> bool:
    """Whether two outputs are as good as each other: in a beam by their scores, and greedily where
    they part."""
    scores = [token_scores(own, line, rows) for rows in (ours, theirs)]
    if beam > 1:
        first, second = (sum(each) / len(each) ** own.config.length_penalty for each in scores)
        return abs(first - second) < TIE
    place = next(number for number, pair in enumerate(zip(ours, theirs, strict=False)) if pair[0] != pair[1])
    return abs(scores[0][place] - scores[1][place]) < TIE


def assert_same_outputs(folder: Path, own: Translator, lines: list[str], *, beam: int) -> set[int]:
    """The outputs are those of `generate`, ties aside; their lengths. Of those that come to the
    limit only greedy ones are compared, because there transformers forgets what the end costs."""
    theirs = their_outputs(folder, lines, num_beams=beam)
    both = zip(lines, outputs(own, lines, beam=beam), theirs, strict=True)
    limit = own.config.length_offset
    compared = [each for each in both if beam == 1 or max(map(len, each[1:])) < limit]
    different = [each for each in compared if each[1] != each[2] and not is_tie(own, *each, beam=beam)]
    assert different == []
    return {len(rows) for _, _, rows in compared}


def engines(run: Path) -> Iterator[Translator]:
    """The translators of the run: PyTorch, native C++ where it was built, and ONNX Runtime where
    that is there."""
    yield Translator.load(run, engine="torch")
    if has_native():
        yield Translator.load(run, engine="native")
    if importlib.util.find_spec("onnxruntime") and importlib.util.find_spec("onnx"):
        export_onnx(Run(run), int8=False, say=say_nothing)
        yield Translator.load(run, engine="onnx")


def test_greedy_and_beam_outputs_are_those_of_generate_in_every_engine(folder: Path, run: Path) -> None:
    for own in engines(run):
        lengths = [assert_same_outputs(folder, own, LINES, beam=beam) for beam in (1, 4)]
        assert min(map(len, lengths)) > 1, "else this shows little"


@pytest.mark.parametrize("shape", VARIED.values(), ids=VARIED)
def test_logits_are_those_of_transformers_whatever_the_model_varies_in(tmp_path: Path, shape: dict[str, Any]) -> None:
    theirs, own = adopted(tmp_path, **shape)
    assert_same_logits(theirs, own, LINES[:8])


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_two_hundred_random_models_have_the_logits_of_transformers_and_twenty_its_outputs(tmp_path: Path) -> None:
    lengths: set[int] = set()
    for seed in range(200):
        place = tmp_path / str(seed)
        theirs, own = adopted(place, seed=seed, **drawn_shape(random.Random(seed)))
        assert_same_logits(theirs, own, LINES[:8])
        if seed % 10 == 0:
            for translator in engines(place / "run"):
                lengths |= assert_same_outputs(place / "model", translator, MANY, beam=1)
                lengths |= assert_same_outputs(place / "model", translator, MANY, beam=4)
    assert len(lengths) > 10, "else this shows little"


def test_a_sentence_ends_when_transformers_ends_it(folder: Path, run: Path) -> None:
    later = Translator.load(run, engine="torch")
    assert later.config.early_stopping is False, "what transformers does unless it is told otherwise"
    found = outputs(later, LINES, beam=4)
    later.config = later.config.model_copy(update={"early_stopping": True})
    sooner = outputs(later, LINES, beam=4)
    assert sooner != found, "else this shows little"
    theirs = their_outputs(folder, LINES, num_beams=4, early_stopping=True)
    limit = later.config.length_offset
    assert all(own == rows for own, rows in zip(sooner, theirs, strict=True) if max(len(own), len(rows)) < limit)


def test_texts_are_those_of_transformers(folder: Path, run: Path) -> None:
    tokenizer = their_tokenizer(folder)
    expected = [tokenizer.decode(rows, skip_special_tokens=True) for rows in their_outputs(folder, LINES)]
    assert [each.text for each in Translator.load(run, engine="torch").translate(LINES, beam=1)] == expected


def test_a_pickle_of_tensors_gives_the_same_run_and_says_so(folder: Path, run: Path, tmp_path: Path) -> None:
    model = loaded_marian(folder)
    place = tmp_path / "model"
    place.mkdir()
    for file in folder.iterdir():
        if file.name != "model.safetensors":
            (place / file.name).write_bytes(file.read_bytes())
    # with what older versions stored, too: all that is tied, and the positions
    torch.save(model.state_dict(), place / "pytorch_model.bin")
    told: list[str] = []
    adopt(place, tmp_path / "run", say=told.append)
    assert "only its tensors were read (weights_only), nothing was executed" in told[0]
    assert (tmp_path / "run" / "model.safetensors").read_bytes() == (run / "model.safetensors").read_bytes()


def test_the_words_of_a_model_that_does_not_ban_its_start_include_it(tmp_path: Path) -> None:
    theirs, own = adopted(tmp_path, search={"bad_words_ids": None})
    start = theirs.config.decoder_start_token_id
    with torch.no_grad():
        theirs.final_logits_bias[0, start] = 9.0
    theirs.save_pretrained(tmp_path / "model")
    own = Translator.load(adopt(tmp_path / "model", tmp_path / "again", say=say_nothing).folder, engine="torch")
    found = outputs(own, LINES, beam=1)
    assert any(start in rows for rows in found), "else this shows little"
    assert found == their_outputs(tmp_path / "model", LINES)


@pytest.mark.parametrize("is_renormalized", [pytest.param(False, marks=pytest.mark.soak), True])
def test_banned_words_are_never_produced_and_scores_are_those_of_transformers(
    tmp_path: Path, is_renormalized: bool
) -> None:
    theirs, plain = adopted(tmp_path / "plain")
    common = max((rows for rows in outputs(plain, LINES, beam=1)), key=len)
    word = next(row for row in common if row != 0)
    start = theirs.config.decoder_start_token_id
    theirs.generation_config.bad_words_ids = [[start], [word]] if is_renormalized else [[start]]
    theirs.generation_config.renormalize_logits = is_renormalized
    theirs.save_pretrained(tmp_path / "plain" / "model")
    own = Translator.load(adopt(tmp_path / "plain" / "model", tmp_path / "run", say=say_nothing).folder, engine="torch")
    assert_same_outputs(tmp_path / "plain" / "model", own, LINES, beam=4)
    assert any(word in rows for rows in outputs(own, LINES, beam=1)) is not is_renormalized


def test_an_adopted_run_is_checked_sealed_and_translated_like_any_other(run: Path) -> None:
    assert check_folder(run) == 4  # settings, note, tokenizer, weights
    before = [each.text for each in Translator.load(run, engine="torch").translate(LINES[:5])]
    seal_run(run)
    assert [each.text for each in Translator.load(run, engine="torch").translate(LINES[:5])] == before
    source, target = Run(run).tokenizers()
    assert source.pieces([BOS, EOS]) == ["<pad>", "</s>"] == target.pieces([BOS, EOS])


def test_lengths_and_beam_come_from_the_folder(tmp_path: Path) -> None:
    _, own = adopted(tmp_path, search={"num_beams": 6, "length_penalty": 0.5, "max_length": 18})
    assert (own.config.beam, own.config.length_penalty) == (6, 0.5)
    assert own.model.config.max_length == 63
    assert max(len(rows) for rows in outputs(own, LINES, beam=1)) == 17
    assert own.translate([" ".join(LINES)])[0].was_truncated


def test_languages_are_those_of_the_folder_or_those_asked_for(folder: Path, tmp_path: Path) -> None:
    def languages(place: str, **asked: str) -> tuple[str, str]:
        note = adopt(folder, tmp_path / place, say=say_nothing, **asked).data_note()
        return note["source_lang"], note["target_lang"]

    assert languages("own") == ("de", "en")
    assert languages("asked", source_lang="gsw", target_lang="eng_Latn") == ("gsw", "eng_Latn")


def test_a_folder_without_search_settings_of_its_own_takes_those_of_its_config(tmp_path: Path) -> None:
    save_marian(tmp_path / "model")
    (tmp_path / "model" / "generation_config.json").unlink()
    changed_json(tmp_path / "model" / "config.json", num_beams=3, max_length=50, bad_words_ids=[[5]])
    own = adopt(tmp_path / "model", tmp_path / "run", say=say_nothing)
    assert (own.config.decoding.beam, own.config.decoding.length_offset) == (3, 49)
