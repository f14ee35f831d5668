"""The lexicon of the built-in corpus as objects, and what fits together in it."""

from dataclasses import dataclass
from functools import cache

from anydepth.demo.grammar.lexicon import (
    ADJECTIVES,
    CITIES,
    COMPOUNDS,
    COUNTRIES,
    MEN,
    NOUNS,
    PHRASE_COMPOUNDS,
    PLACES,
    WOMEN,
)


@dataclass(frozen=True, eq=False)
class Noun:
    """A German noun and its English phrase: `english` holds the inflected word, `english_tail` what
    follows it ("of the hospital").

    Entries are compared by identity, since each exists once; that keeps the caches of what is built
    from them fast.
    """

    german: str
    gender: str
    plural: str
    english: str
    english_plural: str
    kinds: tuple[str, ...]
    is_weak: bool = False
    english_tail: str = ""
    is_compound: bool = False


@dataclass(frozen=True, eq=False)
class Place:
    """A noun with the prepositions for being there (German with dative, English) and for going
    there (German)."""

    noun: Noun
    at_rest: str
    at_rest_english: str
    towards: str


@dataclass(frozen=True, eq=False)
class Adjective:
    """An adjective; an empty comparative means that it is not compared."""

    german: str
    stem: str
    comparative: str
    english: str
    english_comparative: str
    kinds: tuple[str, ...]


def regular_plural(english: str) -> str:
    """The English plural by rule: keys, parties, buses."""
    if english.endswith(("s", "sh", "ch", "x")):
        return english + "es"
    if english.endswith("y") and english[-2] not in "aeiou":
        return english[:-1] + "ies"
    return english + "s"


def parse_noun(line: str) -> list[Noun]:
    """The noun of a table line, followed by its feminine form where the line names one."""
    german, english, kinds = (column.split() for column in line.split(":")[:3])
    singular = english[0].replace("_", " ")
    plural = english[1] if len(english) > 1 else regular_plural(singular)
    word, gender, german_plural = german[:3]
    found = [Noun(word, gender, german_plural, singular, plural, tuple(kinds), is_weak="weak" in german)]
    if german[-1].startswith("+"):
        feminine = german[-1][1:]
        found.append(Noun(feminine, "f", feminine + "nen", singular, plural, tuple(kinds)))
    return found


def parse_compounds(line: str, *, leads_phrase: bool) -> list[Noun]:
    """Every first part of the line joined with every second part."""
    firsts, seconds = line.split(":")
    found = []
    for first in firsts.split():
        german, english = first.split("=")
        english = english.replace("_", " ")
        for second in seconds.split():
            tail, gender, plural, meaning, kinds = second.split("/")
            head, _, link = meaning.partition("_")
            lead = "" if leads_phrase else english + " "
            after = f" {link} {english}" if leads_phrase else ""
            found.append(
                Noun(
                    german + tail,
                    gender,
                    german + plural,
                    lead + head,
                    lead + regular_plural(head),
                    tuple(kinds.split(".")),
                    english_tail=after,
                    is_compound=True,
                )
            )
    return found


def table_lines(table: str) -> list[str]:
    """The lines of a table that hold something."""
    return [line for line in table.splitlines() if line.strip()]


@cache
def nouns() -> tuple[Noun, ...]:
    """All nouns: simple, place and compound."""
    found = [noun for line in table_lines(NOUNS) + table_lines(PLACES) for noun in parse_noun(line)]
    found += [noun for line in table_lines(COMPOUNDS) for noun in parse_compounds(line, leads_phrase=False)]
    found += [noun for line in table_lines(PHRASE_COMPOUNDS) for noun in parse_compounds(line, leads_phrase=True)]
    return tuple(found)


@cache
def nouns_of(kinds: str, *, is_compound: bool) -> tuple[Noun, ...]:
    """The simple nouns or the compounds that have one of `kinds`, which are joined by "+"."""
    wanted = kinds.split("+")
    return tuple(
        noun for noun in nouns() if noun.is_compound == is_compound and any(kind in noun.kinds for kind in wanted)
    )


@cache
def places_of(kinds: str) -> tuple[Place, ...]:
    """The places that have one of `kinds`, which are joined by "+"."""
    found = []
    for line in table_lines(PLACES):
        noun = parse_noun(line)[0]
        at_rest, at_rest_english, towards = line.split(":")[3].split()
        if any(kind in noun.kinds for kind in kinds.split("+")):
            found.append(Place(noun, at_rest, at_rest_english, towards))
    return tuple(found)


@cache
def adjectives() -> tuple[Adjective, ...]:
    """All adjectives."""
    found = []
    for line in table_lines(ADJECTIVES):
        german, english, kinds = (column.split() for column in line.split(":"))
        word, stem, comparative = german
        found.append(
            Adjective(
                word,
                word if stem == "-" else stem,
                comparative.strip("-"),
                english[0],
                english[1].strip("-").replace("_", " "),
                tuple(kinds),
            )
        )
    return tuple(found)


@cache
def adjectives_for(noun_kinds: tuple[str, ...]) -> tuple[Adjective, ...]:
    """The adjectives that suit a noun of these kinds."""
    return tuple(adjective for adjective in adjectives() if any(kind in noun_kinds for kind in adjective.kinds))


@cache
def names() -> tuple[tuple[str, bool], ...]:
    """All first names, each with whether it is a man's."""
    return tuple((name, True) for name in MEN.split()) + tuple((name, False) for name in WOMEN.split())


def translated(entry: str) -> tuple[str, str]:
    """The German and English name of a list entry: "Wien=Vienna", or "Berlin" for both."""
    german, _, english = entry.partition("=")
    return german, english or german


@cache
def cities() -> tuple[tuple[str, str], ...]:
    """The German and English names of all cities."""
    return tuple(translated(entry) for entry in CITIES.split())


@cache
def countries() -> tuple[tuple[str, str], ...]:
    """The German and English names of all countries."""
    return tuple(translated(entry) for entry in COUNTRIES.split())
