"""Vocabulary settings of a translator: by name, as an object, by the run's check, and what they
cost."""

import logging
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from evaluation.translators import REFERENCES, SOURCES, make_run, make_translator, quiet
from safetensors.torch import load_file
from tiny import BLOCKS

from anydepth.errors import RunError, UsageError
from anydepth.evaluation.measure import decoder_flops, full_depth_flops, measure
from anydepth.exits.flops import DecoderShape, no_decision, sentence_flops
from anydepth.inference.translator import Translator
from anydepth.model.checkpoint import save_tensors
from anydepth.runs.checked_vocabulary import CheckedVocabulary, MeasuredVocabulary, load_checked, save_checked
from anydepth.runs.fingerprints import selection_fingerprint, weights_fingerprint
from anydepth.runs.run import Run
from anydepth.runs.vouching import seal_run
from anydepth.runs.word_selections import TableSettings, learn_table
from anydepth.search.decoding import DecodingOptions
from anydepth.training.word_selection import SelectionTraining, train_selection

FEW = TableSettings(frequent=6, rounds=2)
LINES = [*SOURCES, "Łukasz läuft 1987"]


@pytest.fixture(scope="module")
def selecting_run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A run with both kinds of selections and no default."""
    run = make_run(tmp_path_factory.mktemp("selecting"))
    learn_table(run, FEW, say=quiet)
    train_selection(run, SelectionTraining(updates=2, frequent=6), say=quiet)
    return run


@pytest.fixture
def own(selecting_run: Run, tmp_path: Path) -> Run:
    return Run(Path(shutil.copytree(selecting_run.folder, tmp_path / "run")))


@pytest.fixture(scope="module")
def translator(selecting_run: Run) -> Translator:
    return Translator.load(selecting_run.folder, engine="torch")


def choose(run: Run, vocabulary: str | None) -> None:
    """Stores a check that chose `vocabulary`."""
    measured = [MeasuredVocabulary("full", 30.0, 300.0, 1.0, 3)]
    if vocabulary is not None:
        fingerprint = selection_fingerprint(run, vocabulary)
        measured.append(MeasuredVocabulary(vocabulary, 30.0, 20.0, 1.0, 3, fingerprint))
    found = CheckedVocabulary(
        weights_fingerprint(run), vocabulary, 0.1, 2, 0.6, "torch", "valid", "0-0", 3, 300, tuple(measured)
    )
    save_checked(run, found)
    assert load_checked(run) == found


def test_without_a_check_all_words_are_used(translator: Translator) -> None:
    vocab = translator.target_tokenizer.size
    assert translator.search_settings().words is None
    assert [each.words for each in translator.translate(LINES)] == [vocab, 0, vocab, vocab]
    assert translator.translate(LINES, vocabulary="full") == translator.translate(LINES)


@pytest.mark.parametrize("vocabulary", ["table:1", "table:3", "learned:0.5"])
def test_a_setting_by_name_or_as_an_object_leaves_fewer_words(translator: Translator, vocabulary: str) -> None:
    found = translator.translate(LINES, vocabulary=vocabulary)
    selection = translator.words(vocabulary)
    assert selection is not None and selection.name == vocabulary
    assert found == translator.translate(LINES, vocabulary=selection)
    assert found == list(translator.translate_stream(LINES, vocabulary=vocabulary))
    assert all(0 < each.words < translator.target_tokenizer.size for each in found if each.tokens)
    assert found[3].words > 256, "a sentence with a byte piece may spell anything"


def test_a_sentence_is_translated_as_if_it_were_alone(translator: Translator) -> None:
    together = translator.translate(LINES, vocabulary="table:2")
    alone = [translator.translate([line], vocabulary="table:2")[0] for line in LINES]
    assert [(each.tokens, each.words) for each in together] == [(each.tokens, each.words) for each in alone]


def test_every_engine_keeps_to_the_selection(selecting_run: Run, translator: Translator) -> None:
    native = Translator.load(selecting_run.folder)
    assert [
        (each.text, each.words, each.exits) for each in native.translate(LINES, vocabulary="table:2", policy="fixed:2")
    ] == [
        (each.text, each.words, each.exits)
        for each in translator.translate(LINES, vocabulary="table:2", policy="fixed:2")
    ]


def test_the_checked_setting_is_the_default_and_full_switches_it_off(own: Run, translator: Translator) -> None:
    choose(own, "table:2")
    checked = Translator.load(own.folder, engine="torch")
    assert checked.translate(LINES) == translator.translate(LINES, vocabulary="table:2")
    assert checked.translate(LINES, vocabulary="full") == translator.translate(LINES)
    assert checked.translate(LINES, vocabulary="table") == checked.translate(LINES), "the size is the checked one"
    assert checked.with_engine(checked.engine).translate(LINES) == checked.translate(LINES)
    choose(own, None)
    assert Translator.load(own.folder, engine="torch").translate(LINES) == translator.translate(LINES)


def test_a_table_that_was_learned_again_after_the_check_is_not_the_default(
    own: Run, caplog: pytest.LogCaptureFixture
) -> None:
    choose(own, "table:2")
    learn_table(own, TableSettings(frequent=3, per_piece=2, rounds=1), say=quiet)
    with caplog.at_level(logging.WARNING):
        assert Translator.load(own.folder, engine="torch").search_settings().words is None
    assert "is another than was checked as table:2, so all words are used; check again" in caplog.records[0].message


def test_a_default_that_is_too_small_for_the_beam_gives_way_and_one_that_was_asked_for_is_refused(
    own: Run, translator: Translator, caplog: pytest.LogCaptureFixture
) -> None:
    choose(own, "table:1")
    checked = Translator.load(own.folder, engine="torch")
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            found = checked.translate(LINES, beam=9)
    (told,) = [record.message for record in caplog.records]
    assert told.startswith("beam = 9 wants 19 words to choose from, but table:1 may leave ")
    assert told.endswith("so all words are used")
    assert found == translator.translate(LINES, beam=9)
    with pytest.raises(UsageError, match=r"beam = 9 wants 19 words to choose from, but the vocabulary selection"):
        checked.translate(LINES, beam=9, vocabulary="table:1")


def test_a_default_that_was_checked_with_other_weights_gives_way(own: Run, caplog: pytest.LogCaptureFixture) -> None:
    choose(own, "table:1")
    weights = load_file(own.weights_file)
    save_tensors(own.weights_file, {name: tensor * 1.5 for name, tensor in weights.items()})
    with caplog.at_level(logging.WARNING):
        changed = Translator.load(own.folder, engine="torch")
        assert changed.search_settings().words is None
    assert "table:1 of" in caplog.text and "was checked with other weights than it has now" in caplog.text
    with pytest.raises(RunError, match=r"was trained with other weights"):
        changed.translate(LINES, vocabulary="learned")


def test_stored_settings_that_cannot_be_are_refused(own: Run) -> None:
    choose(own, "table:1")
    own.vocabulary_file.write_text(own.vocabulary_file.read_text().replace("table:1", "tabel:1"), encoding="utf-8")
    with pytest.raises(RunError, match=r"vocabulary.json is not as the run wrote it"):
        Translator.load(own.folder, engine="torch").translate(LINES)
    with pytest.raises(RunError, match=r"vocabulary.json cannot be read \(there is no vocabulary setting 'tabel:1'"):
        seal_run(own.folder)
    own.seal.make()
    with pytest.raises(RunError, match=r"vocabulary.json cannot be read as vocabulary settings \(.*tabel:1.*remove it"):
        Translator.load(own.folder, engine="torch").translate(LINES)


def test_a_translator_without_a_run_takes_objects_and_refuses_names() -> None:
    translator = make_translator()
    assert translator.search_settings(DecodingOptions(vocabulary="full")).words is None
    with pytest.raises(UsageError, match=r"--vocabulary table:5 needs the word selections of a run; make the trans"):
        translator.translate(["hund"], vocabulary="table:5")


def test_flops_count_the_words_of_each_sentence_and_what_choosing_them_cost(translator: Translator) -> None:
    policy = translator.policy("fixed:2")
    for vocabulary in ("table:2", "learned:0.5"):
        decoding = DecodingOptions(vocabulary=vocabulary)
        figures, found = measure(translator, SOURCES, REFERENCES, policy, decoding)
        selection = translator.words(vocabulary)
        assert selection is not None
        by_hand = 0
        for each in found:
            if each.exits:
                shape = DecoderShape.of(translator.model.config, each.words)
                by_hand += sentence_flops(shape, each.exits, each.source_length, no_decision) + selection.flops()
        assert figures.mflops_per_token == pytest.approx(by_hand / figures.tokens / 1e6, rel=1e-12)
        all_words = [replace(each, words=translator.target_tokenizer.size) for each in found]
        deep = [replace(each, exits=[BLOCKS] * len(each.exits)) for each in all_words]
        assert full_depth_flops(translator, found) == decoder_flops(translator, deep, no_decision)
        assert figures.vocabulary == vocabulary
        assert figures.words == pytest.approx(sum(each.words for each in found) / 2)
