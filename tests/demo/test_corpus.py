"""The built-in corpus: its splits, its grammar against forms written by hand, and how often each
phenomenon occurs."""

import os
import re
import subprocess
import sys
from collections import Counter
from functools import cache
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import pytest

import anydepth
from anydepth.demo.corpus import SPLIT_SIZES, draw_pair, finished, generate_corpus, write_corpus
from anydepth.demo.grammar.entries import adjectives, cities, names, nouns
from anydepth.demo.grammar.german import (
    CASES,
    infinitive_form,
    noun_form,
)
from anydepth.demo.grammar.verbs import frames


def read_corpus(folder: Path) -> dict[str, list[tuple[str, str]]]:
    lines = {path.name: path.read_text(encoding="utf-8").splitlines() for path in folder.iterdir()}
    return {split: list(zip(lines[f"{split}.de"], lines[f"{split}.en"], strict=True)) for split in SPLIT_SIZES}


@cache
def corpus() -> dict[str, list[tuple[str, str]]]:
    """The corpus of seed 1 as another process writes it: with other string hashes, and without the
    shape checks, which are slow."""
    script = (
        "import sys, pathlib; from anydepth.demo.corpus import write_corpus; "
        "write_corpus(pathlib.Path(sys.argv[1]), seed=1)"
    )
    root = str(Path(anydepth.__file__).parents[1])
    with TemporaryDirectory() as folder:
        subprocess.run(
            [sys.executable, "-c", script, folder], check=True, cwd=root, env={**os.environ, "PYTHONHASHSEED": "7"}
        )
        return read_corpus(Path(folder))


def all_pairs() -> list[tuple[str, str]]:
    return [pair for pairs in corpus().values() for pair in pairs]


@pytest.fixture()
def small_sizes(monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    sizes = {"train": 300, "valid": 20, "test": 10}
    corpus()
    for split, size in sizes.items():
        monkeypatch.setitem(SPLIT_SIZES, split, size)
    return sizes


def test_the_same_seed_gives_the_same_sentences_in_a_process_with_other_string_hashes(
    small_sizes: dict[str, int],
) -> None:
    assert generate_corpus(seed=1)["train"] == corpus()["train"][: small_sizes["train"]]


def test_another_seed_gives_another_corpus(small_sizes: dict[str, int]) -> None:
    assert len(set(generate_corpus(seed=2)["train"]) & set(corpus()["train"][: small_sizes["train"]])) < 30


def test_written_files_hold_the_generated_pairs_line_by_line(tmp_path: Path, small_sizes: dict[str, int]) -> None:
    assert write_corpus(tmp_path / "demo", seed=3) == small_sizes
    assert read_corpus(tmp_path / "demo") == generate_corpus(seed=3)


def test_each_split_has_its_announced_size_and_train_at_least_twenty_thousand() -> None:
    assert {split: len(pairs) for split, pairs in corpus().items()} == SPLIT_SIZES
    assert SPLIT_SIZES["train"] >= 20_000


def test_no_german_sentence_occurs_twice_in_the_whole_corpus() -> None:
    german = [pair[0] for pair in all_pairs()]
    assert len(set(german)) == len(german) == sum(SPLIT_SIZES.values())


def test_the_grammar_never_translates_one_german_sentence_in_two_ways() -> None:
    random, translations = Random(3), dict(all_pairs())
    for _ in range(2500):
        german, english = draw_pair(random)
        assert translations.setdefault(german, english) == english, german


def test_sentences_have_four_to_twenty_five_words_on_both_sides() -> None:
    lengths = Counter(len(sentence.split()) for pair in all_pairs() for sentence in pair)
    assert (min(lengths), max(lengths)) == (4, 25)
    assert 8.5 < sum(length * count for length, count in lengths.items()) / lengths.total() < 11.5


def test_sentences_start_with_a_capital_and_are_punctuated_like_normal_text() -> None:
    for sentence in (sentence for pair in all_pairs() for sentence in pair):
        assert re.fullmatch(r"[A-ZÄÖÜ][^?!.]*[^\s,][?!.]", sentence), sentence
        assert not re.search(r"\s\s|\s[,.?!]|,,|,\S", sentence), sentence


def test_final_mark_replaces_a_comma() -> None:
    assert finished("er kennt den Mann, der lacht,") == "Er kennt den Mann, der lacht."
    assert finished("lacht er?") == "Lacht er?"


def test_the_lexicon_is_as_large_as_promised() -> None:
    assert sum(not entry.is_compound for entry in nouns()) >= 120
    assert len({infinitive_form(entry.german) for entry in frames()}) >= 70
    assert len(adjectives()) >= 40
    assert len(names()) >= 60
    assert len(cities()) >= 40
    assert {german for german, english in cities() if german != english} >= {"München", "Köln", "Wien"}


def test_every_simple_noun_name_city_and_adjective_occurs_fifty_times_in_train() -> None:
    counts = Counter(word for german, _ in corpus()["train"] for word in re.findall(r"\w+", german))
    for entry in nouns():
        forms = {noun_form(entry, case, is_plural=is_plural) for case in CASES for is_plural in (False, True)}
        assert entry.is_compound or sum(counts[form] for form in forms) >= 50, entry.german
    for name, _ in (*names(), *cities()):
        assert counts[name] + counts[name + "s"] >= 50, name
    for quality in adjectives():
        forms = {quality.german, quality.comparative} | {
            quality.stem + ending for ending in ("e", "en", "er", "es", "em")
        }
        assert sum(counts[form] for form in forms) >= 50, quality.german


@pytest.mark.parametrize(
    ("german", "english", "share"),
    [
        (
            r"\bum (halb|Viertel|\w+ (vor|nach)|\w+ Uhr)",
            r"\bat (half|a quarter|\w+(-five)? (past|to)|\w+ o'clock)",
            0.08,
        ),
        (
            r"und(zwanzig|dreißig|vierzig|fünfzig|sechzig|siebzig|achtzig|neunzig)\b",
            r"(twenty|thirty|forty|fifty|sixty|seventy|eighty)-",
            0.03,
        ),
        (r"(leiter|leiterin|besitzer|besitzerin)\b", r"\b(head|owner) of the\b", 0.05),
        (r", (weil|obwohl) ", r" (because|although) ", 0.06),
        (r", dass ", r" that ", 0.03),
        (r"^Wenn ", r"^If ", 0.02),
        (r", (der|die|das|den|dem|denen) ", r" (who|whom|that) ", 0.04),
        (r"\?$", r"\?$", 0.08),
        (r"!$", r"!$", 0.03),
        (r"\b(nicht|keine?[nmrs]?)\b", r"\b(not|cannot)\b", 0.06),
        (r"^(Gestern|Morgen|Heute|Um|Am|Jeden) ", r"^(Yesterday|Tomorrow|This|Today|At|On|Every) ", 0.03),
        (r"(\w+zu\w+en|zu \w+n)[.]$", r"\bto \w+|\bwithout \w+ing", 0.03),
        (r"\bBank\b", r"\bbench\b", 0.002),
        (r"\bBank\b", r"\bbank\b", 0.002),
        (r"\bSchloss\b", r"\block\b", 0.002),
        (r"\bSchloss\b", r"\bcastle\b", 0.002),
    ],
)
def test_a_phenomenon_occurs_on_both_sides_as_often_as_it_should(german: str, english: str, share: float) -> None:
    hits = sum(bool(re.search(german, pair[0]) and re.search(english, pair[1])) for pair in corpus()["train"])
    assert hits >= share * SPLIT_SIZES["train"]


def test_separable_verbs_occur_split_joined_and_with_ge_and_zu_inside() -> None:
    text = "\n".join(german for german, _ in corpus()["train"])
    for pattern in (
        r"\bruft [^,\n]*\ban[.,?]",
        r", weil [^,\n]*\b\w*anruft\b|\banruft\b",
        r"\bangerufen\b",
        r"\banzurufen\b",
    ):
        assert len(re.findall(pattern, text)) >= 5, pattern


def test_names_are_copied() -> None:
    known = {name for name, _ in names()}
    for german, english in all_pairs():
        assert {word for word in re.findall(r"\w+", german) if word in known} <= set(re.findall(r"\w+", english)), (
            german
        )


def test_bank_is_a_bench_exactly_where_one_sits() -> None:
    with_bench = [german for german, english in all_pairs() if re.search(r"\bbench(es)?\b", english)]
    with_bank = [german for german, english in all_pairs() if re.search(r"\bbanks?\b", english)]
    assert with_bench
    assert with_bank
    assert all(re.search(r"\b[Aa]uf (\w+ )+B(a|ä)nk", german) for german in with_bench)
    assert all(re.search(r"\b([Zz]ur|[Ii]n der|[Bb]ei der) (\w+ )?Bank\b", german) for german in with_bank)


def test_no_english_sentence_has_a_wrong_article() -> None:
    text = "\n".join(english for _, english in all_pairs())
    assert not re.search(r"\b[Aa] (?!uni|one|euro)[aeiou]", text)
    assert not re.search(r"\b[Aa]n [^aeiou]", text)
