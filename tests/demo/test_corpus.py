"""The built-in corpus: its splits, its grammar against forms written by hand, and how often each
phenomenon occurs."""

import os
import re
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from functools import cache
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import pytest

import anydepth
from anydepth.demo.corpus import SPLIT_SIZES, draw_pair, finished, generate_corpus, write_corpus
from anydepth.demo.grammar.clauses import (
    Adverbial,
    Clause,
    Piece,
    english_main,
    english_question,
    german_command,
    german_final,
    german_infinitive,
    german_main,
    german_question,
)
from anydepth.demo.grammar.english import EnglishVerb, ing_form, past_form, third_person, with_article
from anydepth.demo.grammar.entries import Adjective, Noun, adjectives, cities, names, nouns
from anydepth.demo.grammar.german import (
    CASES,
    GermanVerb,
    imperative_form,
    infinitive_form,
    noun_form,
    participle_form,
    present_form,
    preterite_form,
    with_preposition,
    zu_infinitive,
)
from anydepth.demo.grammar.numbers import (
    english_clock,
    english_number,
    english_year,
    german_clock,
    german_number,
    german_year,
)
from anydepth.demo.grammar.phrases import PRONOUNS, Phrase, article_phrase, counted_phrase
from anydepth.demo.grammar.verbs import Frame, frames, modals


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


def noun(german: str, *, english: str = "") -> Noun:
    return next(entry for entry in nouns() if entry.german == german and english in ("", entry.english))


def adjective(german: str) -> Adjective:
    return next(entry for entry in adjectives() if entry.german == german)


def frame(infinitive: str) -> Frame:
    return next(entry for entry in frames() if infinitive_form(entry.german) == infinitive)


def calling_the_doctor(**changes: object) -> Clause:
    doctor = article_phrase(noun("Arzt"), None, "the")
    anna = Phrase(("Anna", "Anna", "Anna", "Annas"), "Anna", "Anna", "she", gender="f")
    piece = Piece(doctor.case("acc"), doctor.english, True, doctor, "acc")
    return replace(Clause(anna, frame("anrufen"), (piece,)), **changes)  # type: ignore[arg-type]


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


NUMBERS = [
    (2, "zwei", "two"),
    (12, "zwölf", "twelve"),
    (16, "sechzehn", "sixteen"),
    (17, "siebzehn", "seventeen"),
    (20, "zwanzig", "twenty"),
    (21, "einundzwanzig", "twenty-one"),
    (30, "dreißig", "thirty"),
    (47, "siebenundvierzig", "forty-seven"),
    (60, "sechzig", "sixty"),
    (100, "einhundert", "one hundred"),
    (101, "einhunderteins", "one hundred and one"),
    (312, "dreihundertzwölf", "three hundred and twelve"),
    (365, "dreihundertfünfundsechzig", "three hundred and sixty-five"),
    (700, "siebenhundert", "seven hundred"),
    (999, "neunhundertneunundneunzig", "nine hundred and ninety-nine"),
]


@pytest.mark.parametrize(("number", "german", "english"), NUMBERS)
def test_number_words(number: int, german: str, english: str) -> None:
    assert (german_number(number), english_number(number)) == (german, english)


def test_numbers_from_one_to_999_have_different_words() -> None:
    assert len({german_number(number) for number in range(1, 1000)}) == 999
    assert len({english_number(number) for number in range(1, 1000)}) == 999


def test_year_words() -> None:
    assert (german_year(1947), english_year(1947)) == ("neunzehnhundertsiebenundvierzig", "nineteen forty-seven")
    assert (german_year(1910), english_year(1910)) == ("neunzehnhundertzehn", "nineteen ten")


CLOCKS = [
    (2, 30, "halb drei", "half past two"),
    (4, 15, "Viertel nach vier", "a quarter past four"),
    (7, 45, "Viertel vor acht", "a quarter to eight"),
    (1, 25, "fünf vor halb zwei", "twenty-five past one"),
    (6, 20, "zwanzig nach sechs", "twenty past six"),
    (1, 35, "fünf nach halb zwei", "twenty-five to two"),
    (12, 30, "halb eins", "half past twelve"),
    (1, 0, "ein Uhr", "one o'clock"),
    (1, 5, "fünf nach eins", "five past one"),
    (12, 50, "zehn vor eins", "ten to one"),
    (11, 40, "zwanzig vor zwölf", "twenty to twelve"),
    (12, 0, "zwölf Uhr", "twelve o'clock"),
]


@pytest.mark.parametrize(("hour", "minute", "german", "english"), CLOCKS)
def test_clock_times(hour: int, minute: int, german: str, english: str) -> None:
    assert (german_clock(hour, minute), english_clock(hour, minute)) == (german, english)


@pytest.mark.parametrize(
    ("word", "article", "is_plural", "expected"),
    [
        (("alt", "Mann"), "the", False, "der alte Mann, den alten Mann, dem alten Mann, des alten Mannes"),
        (("alt", "Mann"), "a", False, "ein alter Mann, einen alten Mann, einem alten Mann, eines alten Mannes"),
        (("alt", "Mann"), "bare", True, "alte Männer, alte Männer, alten Männern, alter Männer"),
        (
            ("neu", "Tasche"),
            "no",
            False,
            "keine neue Tasche, keine neue Tasche, keiner neuen Tasche, keiner neuen Tasche",
        ),
        (("müde", "Kind"), "the", True, "die müden Kinder, die müden Kinder, den müden Kindern, der müden Kinder"),
        (("müde", "Kind"), "a", False, "ein müdes Kind, ein müdes Kind, einem müden Kind, eines müden Kindes"),
        (
            ("teuer", "Auto"),
            "this",
            False,
            "dieses teure Auto, dieses teure Auto, diesem teuren Auto, dieses teuren Autos",
        ),
        (("kalt", "Wasser"), "bare", False, "kaltes Wasser, kaltes Wasser, kaltem Wasser, kalten Wassers"),
        (("klug", "Junge"), "the", False, "der kluge Junge, den klugen Jungen, dem klugen Jungen, des klugen Jungen"),
        (
            ("reich", "Nachbar"),
            "a",
            False,
            "ein reicher Nachbar, einen reichen Nachbarn, einem reichen Nachbarn, eines reichen Nachbarn",
        ),
        (
            ("streng", "Student"),
            "the",
            True,
            "die strengen Studenten, die strengen Studenten, den strengen Studenten, der strengen Studenten",
        ),
    ],
)
def test_declension_tables_by_hand(word: tuple[str, str], article: str, is_plural: bool, expected: str) -> None:
    phrase = article_phrase(noun(word[1]), adjective(word[0]), article, is_plural=is_plural)
    assert ", ".join(phrase.german) == expected


def test_possessives_agree_with_owner_and_owned() -> None:
    theirs = article_phrase(noun("Bruder"), None, "own", owner="they")
    yours = article_phrase(noun("Schwester"), None, "own", owner="all of you")
    assert (theirs.case("acc"), theirs.english) == ("ihren Bruder", "their brother")
    assert (yours.case("dat"), yours.english) == ("eurer Schwester", "your sister")


def test_counted_phrases_take_strong_endings() -> None:
    phrase = counted_phrase(noun("Buch"), adjective("alt"), 47)
    assert (phrase.case("nom"), phrase.case("dat")) == (
        "siebenundvierzig alte Bücher",
        "siebenundvierzig alten Büchern",
    )
    assert phrase.english == "forty-seven old books"


@pytest.mark.parametrize(
    ("german", "genitive"),
    [
        ("Haus", "Hauses"),
        ("Lehrer", "Lehrers"),
        ("Bus", "Busses"),
        ("Chef", "Chefs"),
        ("Arzt", "Arztes"),
        ("Museum", "Museums"),
        ("Frau", "Frau"),
        ("Polizist", "Polizisten"),
    ],
)
def test_genitives(german: str, genitive: str) -> None:
    assert noun_form(noun(german), "gen", is_plural=False) == genitive


@pytest.mark.parametrize(
    ("german", "english", "english_plural"),
    [
        ("Bahnhofsuhr", "station clock", "station clocks"),
        ("Krankenhausleiterin", "head of the hospital", "heads of the hospital"),
        ("Gartenbesitzer", "owner of the garden", "owners of the garden"),
        ("Holztisch", "wooden table", "wooden tables"),
        ("Katzengeschichte", "story about cats", "stories about cats"),
    ],
)
def test_compounds_become_phrases(german: str, english: str, english_plural: str) -> None:
    entry = noun(german)
    assert (entry.english + entry.english_tail, entry.english_plural + entry.english_tail) == (english, english_plural)


@pytest.mark.parametrize(
    ("preposition", "phrase", "expected"),
    [
        ("in", "dem Garten", "im Garten"),
        ("in", "das Haus", "ins Haus"),
        ("zu", "der Schule", "zur Schule"),
        ("zu", "dem Bahnhof", "zum Bahnhof"),
        ("an", "dem See", "am See"),
        ("von", "dem Markt", "vom Markt"),
        ("in", "der Stadt", "in der Stadt"),
        ("auf", "dem Tisch", "auf dem Tisch"),
    ],
)
def test_prepositions_contract_with_articles(preposition: str, phrase: str, expected: str) -> None:
    assert with_preposition(preposition, phrase) == expected


@pytest.mark.parametrize(
    ("infinitive", "expected"),
    [
        ("anrufen", "rufst ruft rief angerufen anzurufen ruf"),
        ("einladen", "lädst lädt lud eingeladen einzuladen lade"),
        ("vorbereiten", "bereitest bereitet bereitete vorbereitet vorzubereiten bereite"),
        ("mitnehmen", "nimmst nimmt nahm mitgenommen mitzunehmen nimm"),
        ("lesen", "liest liest las gelesen zu lesen lies"),
        ("reparieren", "reparierst repariert reparierte repariert zu reparieren repariere"),
        ("verkaufen", "verkaufst verkauft verkaufte verkauft zu verkaufen verkauf"),
        ("öffnen", "öffnest öffnet öffnete geöffnet zu öffnen öffne"),
        ("fahren", "fährst fährt fuhr gefahren zu fahren fahr"),
        ("tanzen", "tanzt tanzt tanzte getanzt zu tanzen tanz"),
    ],
)
def test_verb_forms_by_hand(infinitive: str, expected: str) -> None:
    verb = frame(infinitive).german
    forms = (
        present_form(verb, 2, is_plural=False),
        present_form(verb, 3, is_plural=False),
        preterite_form(verb, 3, is_plural=False),
        participle_form(verb),
        zu_infinitive(verb),
        imperative_form(verb),
    )
    assert " ".join(forms) == expected


def test_irregular_present_forms() -> None:
    assert [present_form(GermanVerb("sein"), person, is_plural=False) for person in (1, 2, 3)] == ["bin", "bist", "ist"]
    assert present_form(GermanVerb("können"), 3, is_plural=False) == "kann"
    assert present_form(GermanVerb("arbeiten"), 2, is_plural=True) == "arbeitet"


def test_a_separable_verb_stands_apart_joined_or_inside_out_by_clause_type() -> None:
    today = Adverbial("heute", "today")
    present = calling_the_doctor(time=today, english_tense="progressive")
    perfect = calling_the_doctor(german_tense="perfect", english_tense="past")
    assert german_main(present) == "Anna ruft heute den Arzt an"
    assert german_main(present, front="time") == "heute ruft Anna den Arzt an"
    assert german_question(present) == "ruft Anna heute den Arzt an"
    assert german_final(present, opener="weil") == "weil Anna heute den Arzt anruft"
    assert german_main(perfect) == "Anna hat den Arzt angerufen"
    assert german_final(perfect, opener="dass") == "dass Anna den Arzt angerufen hat"
    assert german_infinitive(calling_the_doctor(), opener="um") == "um den Arzt anzurufen"
    assert german_command(calling_the_doctor(), is_polite=True) == "rufen Sie bitte den Arzt an"
    assert german_main(calling_the_doctor(modal=modals()["müssen"])) == "Anna muss den Arzt anrufen"
    assert german_final(calling_the_doctor(modal=modals()["wollen"]), opener="ob") == "ob Anna den Arzt anrufen will"


def test_nicht_follows_definite_objects_and_time() -> None:
    clause = calling_the_doctor(time=Adverbial("heute", "today"), negation="nicht", english_tense="present")
    assert german_main(clause) == "Anna ruft den Arzt heute nicht an"
    assert english_main(clause) == "Anna does not call the doctor today"


def test_english_questions_and_negation_use_do_unless_there_is_an_auxiliary() -> None:
    assert english_question(calling_the_doctor(english_tense="past")) == "did Anna call the doctor"
    assert english_question(calling_the_doctor(english_tense="progressive")) == "is Anna calling the doctor"
    assert english_question(calling_the_doctor(modal=modals()["müssen"])) == "does Anna have to call the doctor"
    assert english_main(calling_the_doctor(modal=modals()["können"], negation="nicht")) == "Anna cannot call the doctor"
    assert (
        english_main(calling_the_doctor(modal=modals()["dürfen"], german_tense="preterite"))
        == "Anna was allowed to call the doctor"
    )


def test_a_pronoun_stands_between_verb_and_particle_in_english_and_first_in_german() -> None:
    piece = Piece("ihn", "him", True, PRONOUNS["he"], "acc")
    clause = Clause(
        PRONOUNS["I"], frame("abholen"), (piece,), time=Adverbial("morgen", "tomorrow"), english_tense="future"
    )
    assert german_main(clause) == "ich hole ihn morgen ab"
    assert english_main(clause) == "I will pick him up tomorrow"


@pytest.mark.parametrize(
    ("phrase", "expected"),
    [
        ("apple", "an apple"),
        ("old man", "an old man"),
        ("university", "a university"),
        ("umbrella", "an umbrella"),
        ("hat", "a hat"),
        ("interesting book", "an interesting book"),
        ("hard-working cook", "a hard-working cook"),
    ],
)
def test_a_and_an_follow_the_sound(phrase: str, expected: str) -> None:
    assert with_article(phrase) == expected


def test_no_english_sentence_has_a_wrong_article() -> None:
    text = "\n".join(english for _, english in all_pairs())
    assert not re.search(r"\b[Aa] (?!uni|one|euro)[aeiou]", text)
    assert not re.search(r"\b[Aa]n [^aeiou]", text)


def test_english_verb_forms() -> None:
    assert [third_person(base) for base in ("go", "watch", "tidy", "buy", "have")] == [
        "goes",
        "watches",
        "tidies",
        "buys",
        "has",
    ]
    assert [ing_form(base) for base in ("write", "sit", "lie", "travel", "see")] == [
        "writing",
        "sitting",
        "lying",
        "travelling",
        "seeing",
    ]
    assert [past_form(EnglishVerb(base)) for base in ("call", "tidy", "arrive", "plan")] == [
        "called",
        "tidied",
        "arrived",
        "planned",
    ]
