"""The tokenizer of adopted models: the pieces, ids and texts of transformers' MarianTokenizer, in
our order of ids."""

import os
from pathlib import Path
from typing import Any

import pytest
from marian_folders import hostile_lines, small_pairs, spm, their_tokenizer, vocabulary, write_tokenizer

from anydepth.errors import CorpusError
from anydepth.text.marian import MarianTokenizer, MarianVocabulary, tokenizer_of
from anydepth.text.tokenizer import BOS, EOS, PAD, UNK

REAL_LINES = "ANYDEPTH_REAL_LINES"  # a text file for the soak


def adopted(*, is_separate: bool = False, is_start_banned: bool = True, **options: Any) -> list[MarianTokenizer]:
    """The source and the target side of the small tokenizer."""
    models = [spm(side, **options) for side in (0, 1)]

    def made(pieces: dict[str, int]) -> MarianVocabulary:
        return MarianVocabulary(tuple(pieces), 0, 1, pieces["<pad>"], is_start_banned)

    languages = (">>de<<", ">>en<<")
    if is_separate:
        return [MarianTokenizer.of(made(vocabulary([model], languages)), spm=model) for model in models]
    source = MarianTokenizer.of(made(vocabulary(models, languages)), spm=models[0], target_spm=models[1])
    return [source, source.target_side()]


def assert_same_ids(own: MarianTokenizer, theirs: Any, lines: list[str], **side: bool) -> None:
    rows = own.vocabulary.rows
    for line, ids in zip(lines, own.encode_lines(lines), strict=True):
        expected = theirs(text_target=line).input_ids if side else theirs(line).input_ids
        assert [rows[each] for each in [*ids, EOS]] == expected, repr(line)


def assert_same_texts(own: MarianTokenizer, theirs: Any, lines: list[str]) -> None:
    for line in lines:
        ids = own.encode(line)
        expected = theirs.decode([own.vocabulary.rows[each] for each in ids], skip_special_tokens=True)
        assert own.decode([*ids, EOS]) == expected, repr(line)


def compare(folder: Path, lines: list[str], *, is_separate: bool, **options: Any) -> None:
    write_tokenizer(folder, is_separate=is_separate, **options)
    theirs = their_tokenizer(folder)
    source, target = adopted(is_separate=is_separate, **options)
    assert_same_ids(source, theirs, lines)
    assert_same_texts(target, theirs, lines)
    # with two vocabularies transformers numbers special pieces in a target text as in the source's
    plain = [line for line in lines if not is_separate or not any(mark in line for mark in ("</s>", "<unk>", "<pad>"))]
    assert_same_ids(target, theirs, plain, is_target=True)


@pytest.mark.parametrize("is_separate", [False, True])
def test_ids_and_texts_are_those_of_transformers_on_sentences_and_hostile_lines(
    tmp_path: Path, is_separate: bool
) -> None:
    sentences = [text for pair in small_pairs()[:60] for text in pair]
    directed = [f">>de<<{text}" for text in sentences[:20]] + [f">>en<< {text}" for text in sentences[:20]]
    compare(tmp_path, [*sentences, *directed, *hostile_lines(300)], is_separate=is_separate)


@pytest.mark.parametrize("options", [{"kind": "bpe"}, {"bytes_too": True}], ids=["bpe", "bytes"])
def test_other_kinds_of_sentencepiece_models_are_cut_and_joined_the_same(
    tmp_path: Path, options: dict[str, Any]
) -> None:
    compare(tmp_path, hostile_lines(150, seed=2), is_separate=False, **options)


@pytest.mark.soak
@pytest.mark.parametrize("is_separate", [False, True])
def test_ten_thousand_hostile_lines_have_the_ids_and_texts_of_transformers(tmp_path: Path, is_separate: bool) -> None:
    compare(tmp_path, hostile_lines(10_000, seed=7), is_separate=is_separate)


@pytest.mark.soak
def test_ten_thousand_real_lines_have_the_ids_and_texts_of_transformers(tmp_path: Path) -> None:
    file = os.environ.get(REAL_LINES)
    if not file:
        pytest.skip(f"set {REAL_LINES} to a text file of 10,000 lines")
    lines = Path(file).read_text(encoding="utf-8").split("\n")[:10_000]
    assert len(lines) == 10_000, "else this shows little"
    directed = [f"{('>>de<<', '>>en<<', '>>xx<<')[number % 3]} {line}" for number, line in enumerate(lines)]
    compare(tmp_path, lines, is_separate=False)
    compare(tmp_path, directed[::4], is_separate=True)


def test_text_is_cleaned_up_as_the_folder_asks(tmp_path: Path) -> None:
    from marian_folders import changed_json

    write_tokenizer(tmp_path)
    changed_json(tmp_path / "tokenizer_config.json", clean_up_tokenization_spaces=True)
    theirs, (source, _) = their_tokenizer(tmp_path), adopted()
    cleaned = MarianTokenizer.of(source.vocabulary, spm=source.spm_bytes(), clean_up=True)
    lines = ["Das ist es .", "Was ? Nein !", "it 's n't , I 'm", *(german for german, _ in small_pairs()[:20])]
    assert_same_texts(cleaned, theirs, lines)
    assert any(cleaned.decode(cleaned.encode(line)) != source.decode(source.encode(line)) for line in lines)


def test_punctuation_stays_as_it_is_though_transformers_has_a_normaliser_for_it(tmp_path: Path) -> None:
    write_tokenizer(tmp_path)
    theirs = their_tokenizer(tmp_path)
    assert_same_ids(adopted()[0], theirs, ["„Das“ ist \u2013 ja … «gut» , \u2018so\u2019", "a \u201ab\u2019 c"])


@pytest.mark.parametrize("is_start_banned", [True, False])
def test_our_ids_are_a_new_order_of_their_rows_and_back(is_start_banned: bool) -> None:
    vocabulary = MarianVocabulary(("</s>", "<unk>", "a", "b", "<pad>"), 0, 1, 4, is_start_banned)
    expected = [None, 4, 0, None, 1, 2, 3] + [4] * (not is_start_banned)
    assert vocabulary.rows == expected
    assert [vocabulary.rows[number] for number in vocabulary.ids] == [0, 1, 2, 3, 4]
    assert len(set(vocabulary.names)) == len(vocabulary.names)
    assert vocabulary.names[BOS] == ("<pad>" if is_start_banned else "<start>")


def test_a_start_that_is_also_the_end_is_copied_and_names_stay_apart() -> None:
    vocabulary = MarianVocabulary(("</s>", "<unk>", "<padding>", "<start>"), 0, 1, 0)
    assert vocabulary.rows == [None, 0, 0, None, 1, 2, 3]
    assert vocabulary.names[: UNK + 1] == ["<<padding>", "<<start>", "</s>", "<unused>"]


def test_special_pieces_write_nothing_and_are_found_in_texts() -> None:
    source, _ = adopted()
    ids = source.encode("<pad></s><unk>")
    assert ids[:2] == [BOS, EOS] and source.pieces(ids) == ["<pad>", "</s>", "<unk>"]
    assert source.decode([PAD, *ids, UNK]) == ""


def test_a_lone_surrogate_is_refused() -> None:
    with pytest.raises(CorpusError, match=r"lone surrogate U\+D800 at character 2"):
        adopted()[0].encode_lines(["gut", "a\ud800"])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda text: text[:-20], "it is not JSON"),
        (lambda text: text.replace('"format": 1', '"format": 9'), "it is not of kind marian, format 1"),
        (lambda text: text.replace('"spm": "', '"spm": "*'), "its spm is not base64"),
        (lambda text: text.replace('"spm": "', '"spm": "AAAA'), "these bytes are not a SentencePiece model"),
        (lambda text: text.replace('"end": 0', '"end": "0"'), "its vocabulary cannot be"),
        (lambda text: text.replace('"end": 0', '"end": 1'), "its end, start and unknown piece are one"),
        (lambda text: text.replace('"end": 0', '"end": -1'), "its end is row -1 of"),
        (lambda text: text.replace('"unknown": 1', '"unknown": 99999'), "its unknown is row 99999 of"),
        (lambda text: text.replace('"<unk>"', '"</s>"'), "it has a piece twice"),
    ],
)
def test_a_damaged_tokenizer_file_is_refused(change: Any, message: str) -> None:
    text = adopted()[0].model_bytes.decode()
    with pytest.raises(CorpusError, match=f"tokenizer.model is not a tokenizer: {message}"):
        tokenizer_of(change(text).encode(), Path("tokenizer.model"))
