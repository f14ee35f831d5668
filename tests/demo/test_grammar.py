"""The grammar of the built-in corpus: numbers, times, declension, verbs and word order, by hand."""

from dataclasses import replace

import pytest

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
from anydepth.demo.grammar.entries import Adjective, Noun, adjectives, nouns
from anydepth.demo.grammar.german import (
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
