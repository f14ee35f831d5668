"""Sentences of the built-in corpus about prices, ages, years, trains, tastes and comparisons: where
the hard words live."""

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from random import Random

from anydepth.demo.grammar.clauses import Adverbial, Clause, Piece, english_main, german_final, german_main
from anydepth.demo.grammar.english import EnglishVerb, form_of_be
from anydepth.demo.grammar.entries import adjectives_for, cities, nouns_of, places_of
from anydepth.demo.grammar.german import GermanVerb, with_preposition
from anydepth.demo.grammar.numbers import english_number, english_year, german_number, german_year
from anydepth.demo.grammar.phrases import (
    PRONOUNS,
    Phrase,
    article_phrase,
    chance,
    choose_adjective,
    choose_noun,
    name_phrase,
    pick,
    pronoun_for,
)
from anydepth.demo.grammar.scenes import act, choose_person, choose_simple, somebody_known
from anydepth.demo.grammar.times import clock_time
from anydepth.demo.grammar.verbs import COPULA, Frame, frames_for_things, frames_with_object

Pair = tuple[str, str]

QUALIFIED = (
    "building",
    "room",
    "area",
    "worn",
    "food",
    "text+watched",
    "event",
    "vehicle",
    "machine+opened",
    "idea",
    "animal",
    "stranger",
    "furniture+soft",
    "washed",
)
PERSONAL = ("müde", "krank", "traurig", "glücklich", "hungrig")
WITHOUT_DEGREE = ("kaputt", "leer", "rot", "blau", "grün", "schwarz", "weiß", "neu", "wunderbar")
WITH_EXCESS = (
    "alt",
    "jung",
    "groß",
    "klein",
    "teuer",
    "lang",
    "kurz",
    "schwer",
    "schwierig",
    "dunkel",
    "warm",
    "kalt",
    "süß",
    "langweilig",
    "gefährlich",
    "streng",
    "schmutzig",
)


def number_up_to(random: Random, limit: int) -> tuple[str, str]:
    """A number 2..limit in both languages that can stand before a plural."""
    number = 2 + int(random.random() * (limit - 1))
    number -= number % 100 == 1
    return german_number(number), english_number(number)


def present_or_past(random: Random) -> tuple[str, str]:
    """A German tense and its English counterpart for states."""
    return ("preterite", "past") if chance(random, 0.35) else ("present", "present")


def described(random: Random, kinds: str, *, adjective_share: float = 0.3) -> Phrase:
    """A thing with the definite article, dieser or a possessive."""
    noun = choose_noun(random, kinds)
    article = pick(random, ("the", "this") if "building" in noun.kinds else ("the", "the", "this", "own"))
    owner = pick(random, ("I", "you", "we")) if article == "own" else ""
    return article_phrase(noun, choose_adjective(random, noun, probability=adjective_share), article, owner=owner)


def price(random: Random) -> Pair:
    """What something costs: die Lampe kostet siebenundvierzig Euro."""
    kinds, limit = pick(random, (("furniture+device+drive", 999), ("worn+stood", 99), ("carry", 99), ("gift", 200)))
    thing = described(random, kinds, adjective_share=0.0)
    german, english = number_up_to(random, limit)
    tense, english_tense = present_or_past(random)
    frame = Frame(GermanVerb("kosten"), EnglishVerb("cost", "cost", "cost"), "s", "gift", ())
    clause = Clause(thing, frame, (), tense, english_tense, predicate=Adverbial(f"{german} Euro", f"{english} euros"))
    return said_by_somebody(random, clause)


def said_by_somebody(random: Random, clause: Clause) -> Pair:
    """The clause as it is, or after Anna sagt, dass."""
    if chance(random, 0.7):
        return german_main(clause), english_main(clause)
    speaker = choose_person(random)
    german = "sagen" if speaker.is_plural else "sagt"
    english = "say" if speaker.is_plural else "says"
    return (
        f"{speaker.case('nom')} {german}, {german_final(clause, opener='dass')}",
        f"{speaker.english} {english} {english_main(clause, opener='that')}",
    )


def grown_up(random: Random) -> Phrase:
    """One person whose age or year of birth can be told: a name, a relative, somebody with a
    profession."""
    if chance(random, 0.4):
        return name_phrase(random)
    if chance(random, 0.3):
        return article_phrase(choose_simple(random, "kin"), None, "own", owner=pick(random, ("I", "you", "we")))
    noun = choose_noun(random, "stranger+chief")
    while noun.gender == "n" or noun.german == "Junge":
        noun = choose_noun(random, "stranger+chief")
    return article_phrase(noun, None, "this" if chance(random, 0.3) else "the")


def age(random: Random) -> Pair:
    """How old somebody is: mein Onkel ist siebenundvierzig Jahre alt."""
    german, english = number_up_to(random, 99)
    tense, english_tense = present_or_past(random)
    subject = grown_up(random)
    clause = Clause(
        subject, COPULA, (), tense, english_tense, predicate=Adverbial(f"{german} Jahre alt", f"{english} years old")
    )
    return said_by_somebody(random, clause)


def amount(random: Random) -> Pair:
    """How much something has: das Hotel hat siebenundvierzig Zimmer."""
    german, english = number_up_to(random, 999)
    kinds, parts = pick(
        random, (("pages", ("Seiten", "pages")), ("rooms", ("Fenster", "windows")), ("rooms", ("Zimmer", "rooms")))
    )
    noun = choose_noun(random, kinds)
    thing = article_phrase(noun, choose_adjective(random, noun), "this" if chance(random, 0.3) else "the")
    frame = Frame(GermanVerb("haben", preterite="hatte"), EnglishVerb("have", "had", "had"), "s", "work", ())
    tense, english_tense = present_or_past(random)
    clause = Clause(
        thing, frame, (), tense, english_tense, predicate=Adverbial(f"{german} {parts[0]}", f"{english} {parts[1]}")
    )
    return said_by_somebody(random, clause)


def there_are(random: Random) -> Pair:
    """How many there are somewhere: im Garten stehen zwölf Stühle, there are twelve chairs in the
    garden."""
    place_kinds, kinds = pick(
        random, (("building", "stranger"), ("building+room", "furniture"), ("area", "animal"), ("area", "stranger"))
    )
    place = pick(random, places_of(place_kinds))
    where = with_preposition(place.at_rest, article_phrase(place.noun, None, "the").case("dat"))
    german, english = number_up_to(random, 99)
    noun = choose_simple(random, kinds)
    adjective = choose_adjective(random, noun, probability=0.4)
    bare = article_phrase(noun, adjective, "bare", is_plural=True)
    is_past = chance(random, 0.4)
    verb = "gab" if is_past else "gibt"
    lead = "there were" if is_past else "there are"
    return (
        f"{where} {verb} es {german} {bare.case('acc')}",
        f"{lead} {english} {bare.english} {place.at_rest_english} the {place.noun.english}",
    )


def birth(random: Random) -> Pair:
    """When and where somebody was born, with the year in words."""
    year = 1910 + int(random.random() * 90)
    city, english_city = pick(random, cities())
    subject = grown_up(random)
    german, english = f"im Jahr {german_year(year)}", f"in {english_year(year)}"
    if chance(random, 0.5):
        return (
            f"{german} wurde {subject.case('nom')} in {city} geboren",
            f"{english} {subject.english} was born in {english_city}",
        )
    return (
        f"{subject.case('nom')} wurde {german} in {city} geboren",
        f"{subject.english} was born in {english_city} {english}",
    )


def departure(random: Random) -> Pair:
    """When a train or bus to a city leaves or arrives."""
    noun = choose_simple(random, "boarded")
    city, english_city = pick(random, cities())
    clock = clock_time(random)
    verb, prefix, english = pick(random, (("fährt", "ab", "leaves"), ("kommt", "an", "arrives")))
    link, english_link = ("nach", "to") if prefix == "ab" else ("aus", "from")
    article = pick(random, ("the", "this")) if chance(random, 0.8) else "which"
    phrase = article_phrase(noun, None, article)
    subject, english_subject = f"{phrase.case('nom')} {link} {city}", f"{phrase.english} {english_link} {english_city}"
    if article == "which":
        return f"{subject} {verb} {clock.german} {prefix}?", f"{english_subject} {english} {clock.english}?"
    if chance(random, 0.4):
        doer = somebody_known(random)
        knowing = Frame(GermanVerb("wissen"), EnglishVerb("know"), "s", "person", ())
        lead = Clause(doer, knowing, negation="nicht" if chance(random, 0.4) else "")
        return (
            f"{german_main(lead)}, dass {subject} {clock.german} {prefix}{verb}",
            f"{english_main(lead)} that {english_subject} {english} {clock.english}",
        )
    return f"{subject} {verb} {clock.german} {prefix}", f"{english_subject} {english} {clock.english}"


def distance(random: Random) -> Pair:
    """How far a place is from a city: das Schloss ist siebzig Kilometer von Wien entfernt."""
    place, (city, english_city) = pick(random, places_of("sight+area")), pick(random, cities())
    subject = article_phrase(place.noun, choose_adjective(random, place.noun), pick(random, ("the", "this")))
    german, english = number_up_to(random, 999)
    predicate = Adverbial(f"{german} Kilometer von {city} entfernt", f"{english} kilometres away from {english_city}")
    return said_by_somebody(random, Clause(subject, COPULA, predicate=predicate))


def taste(random: Random) -> Pair:
    """Who likes what, where the German subject is the English object: das Bild gefällt dem
    Lehrer."""
    thing = described(random, "worn+watched+hung+sung+sight+text")
    person = pick(random, tuple(PRONOUNS.values())) if chance(random, 0.3) else choose_person(random)
    while person.refers == "all of you":
        person = choose_person(random)
    tense, english_tense = present_or_past(random)
    negation = "nicht" if chance(random, 0.3) else ""
    german = GermanVerb("gefallen", "", "gefäll", "gefiel", "gefallen")
    object_piece = Piece(person.case("dat"), "", True, person, "dat")
    clause = Clause(
        thing,
        Frame(german, EnglishVerb("like"), "s", "text", ()),
        (object_piece,),
        tense,
        english_tense,
        negation=negation,
    )
    liked = Piece("", thing.english_object, True, thing, "acc")
    mirror = Clause(person, clause.frame, (liked,), tense, english_tense, negation=negation)
    return german_main(clause), english_main(mirror)


def comparison(random: Random) -> Pair:
    """Two things compared: das Haus ist größer als der Turm, das Hotel ist so alt wie die
    Kirche."""
    kinds = pick(random, ("stranger", "building", "worn", "animal", "vehicle", "vehicle", "text", "furniture"))
    first = choose_simple(random, kinds)
    second = choose_simple(random, kinds)
    while second.german == first.german:
        second = choose_simple(random, kinds)
    shared = [
        adjective
        for adjective in adjectives_for(first.kinds)
        if adjective in adjectives_for(second.kinds) and adjective.comparative
    ]
    adjective = pick(random, shared)
    left = name_phrase(random) if kinds == "stranger" and chance(random, 0.4) else article_phrase(first, None, "the")
    right = article_phrase(second, None, pick(random, ("the", "this")))
    tense, english_tense = present_or_past(random)
    if chance(random, 0.65):
        predicate = Adverbial(
            f"{adjective.comparative} als {right.case('nom')}", f"{adjective.english_comparative} than {right.english}"
        )
    else:
        predicate = Adverbial(
            f"so {adjective.german} wie {right.case('nom')}", f"as {adjective.english} as {right.english}"
        )
    clause = Clause(
        left, COPULA, (), tense, english_tense, negation="nicht" if chance(random, 0.2) else "", predicate=predicate
    )
    return said_by_somebody(random, clause)


def quality(random: Random) -> Pair:
    """How something is: die Krankenhausuhr war gestern kaputt."""
    noun = choose_noun(random, pick(random, QUALIFIED))
    suitable = adjectives_for(noun.kinds)
    is_plural = chance(random, 0.2) and not {"mass", "chosen", "single"} & set(noun.kinds)
    subject = article_phrase(noun, None, "this" if chance(random, 0.3) else "the", is_plural=is_plural)
    adjective = pick(random, suitable)
    degree = choose_degree(random, adjective.german)
    tense, english_tense = present_or_past(random)
    clause = Clause(
        subject,
        COPULA,
        (),
        tense,
        english_tense,
        predicate=Adverbial(degree[0] + adjective.german, degree[1] + adjective.english),
    )
    return said_by_somebody(random, clause)


def choose_degree(random: Random, adjective: str) -> tuple[str, str]:
    """Nothing, sehr, zu or nicht before an adjective, as far as it has degrees."""
    options = [("", ""), ("nicht ", "not ")]
    options += [("sehr ", "very ")] * 2 if adjective not in WITHOUT_DEGREE else []
    options += [("zu ", "too ")] if adjective in WITH_EXCESS else []
    return pick(random, options)


def purchase_reason(random: Random) -> Pair:
    """Why somebody wants a thing, taken up by a pronoun of its gender: Anna kauft die Lampe, weil
    sie billig ist."""
    while True:
        sphere = pick(random, ("past", "now", "modal"))
        clause = act(
            random,
            subject=somebody_known(random),
            sphere=sphere,
            negation_share=0.2,
            frame=pick(random, frames_with_object("d")),
        )
        last = clause.pieces[-1]
        if last.phrase is None or last.phrase.is_human or not last.phrase.is_definite or last.phrase.has_adjective:
            continue
        pronoun, options = pronoun_for(last.phrase), shared_adjectives(clause.frame.complements[-1].kinds)
        if pronoun is None or not options:
            continue
        adjective = pick(random, options)
        degree = choose_degree(random, adjective[0])
        second = Clause(pronoun, COPULA, predicate=Adverbial(degree[0] + adjective[0], degree[1] + adjective[1]))
        if clause.english_tense == "past":
            second = replace(second, german_tense="preterite", english_tense="past")
        return (
            f"{german_main(clause)}, {german_final(second, opener='weil')}",
            f"{english_main(clause)} {english_main(second, opener='because')}",
        )


@cache
def shared_adjectives(kinds: str) -> list[Pair]:
    """The adjectives that suit every simple noun of these kinds, without those that could also say
    why the person acts."""
    found = [noun for kind in kinds.split("+") for noun in nouns_of(kind, is_compound=False)]
    options = [
        adjective
        for adjective in adjectives_for(found[0].kinds)
        if all(adjective in adjectives_for(noun.kinds) for noun in found) and adjective.german not in PERSONAL
    ]
    return [(adjective.german, adjective.english) for adjective in options]


def thing_statement(random: Random) -> Pair:
    """What happens to things: the party takes place, the book lies on the table."""
    clause = act(random, frame=pick(random, frames_for_things()))
    front = pick(random, ("subject", "time", "place")) if not clause.negation else "subject"
    has_time = front == "time" and clause.time is not None and clause.time.german != "gerade"
    return german_main(clause, front="subject" if front == "time" and not has_time else front), english_main(
        clause, is_time_first=has_time
    )


def feeling(random: Random) -> Pair:
    """Who is cold or bored, in the German dative: dem Kind war gestern kalt."""
    person = pick(random, ("I", "he", "she", "we", "they")) if chance(random, 0.3) else ""
    phrase = PRONOUNS[person] if person else choose_person(random)
    german, english = pick(random, (("kalt", "cold"), ("warm", "warm"), ("langweilig", "bored")))
    time, english_time, is_past = pick(
        random,
        (
            ("gestern Abend", "yesterday evening", True),
            ("gestern", "yesterday", True),
            ("im Moment", "at the moment", False),
            ("heute", "today", False),
            ("oft", "", False),
        ),
    )
    degree = ("sehr ", "very ") if chance(random, 0.5) else ("", "")
    verb = "war" if is_past else "ist"
    be = form_of_be("past" if is_past else "present", phrase.person, is_plural=phrase.is_plural)
    often = " often" if time == "oft" else ""
    return (
        f"{phrase.case('dat')} {verb} {time} {degree[0]}{german}",
        f"{phrase.english} {be}{often} {degree[1]}{english} {english_time}".strip(),
    )


FACTS: tuple[tuple[float, Callable[[Random], Pair]], ...] = (
    (2.5, price),
    (1.5, age),
    (2.0, amount),
    (2.0, there_are),
    (2.0, birth),
    (5.0, departure),
    (2.0, distance),
    (2.0, taste),
    (2.0, comparison),
    (3.5, quality),
    (3.0, purchase_reason),
    (1.0, feeling),
    (4.0, thing_statement),
)
