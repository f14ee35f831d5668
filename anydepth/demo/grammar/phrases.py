"""Noun phrases of the built-in corpus: one object holds all German cases and the English forms of
the same meaning."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from random import Random
from typing import TypeVar

from anydepth.demo.grammar.english import with_article
from anydepth.demo.grammar.entries import Adjective, Noun, adjectives_for, names, nouns_of
from anydepth.demo.grammar.german import (
    CASES,
    DEFINITE,
    DER_ENDINGS,
    EIN_ENDINGS,
    MIXED_ENDINGS,
    STRONG_ENDINGS,
    WEAK_ENDINGS,
    cell,
    declined_stem,
    noun_form,
)
from anydepth.demo.grammar.numbers import english_number, german_number

Item = TypeVar("Item")


@dataclass(frozen=True)
class Phrase:
    """A noun phrase. `refers` says which English pronoun takes it up again: I you he she it we
    they, or "" for none."""

    german: tuple[str, str, str, str]
    english: str
    english_object: str
    refers: str
    gender: str = "m"
    person: int = 3
    is_plural: bool = False
    is_definite: bool = True
    is_pronoun: bool = False
    is_human: bool = True
    has_adjective: bool = False
    head: str = ""

    def case(self, case: str) -> str:
        """The German form in a case."""
        return self.german[CASES.index(case)]

    @property
    def column(self) -> str:
        """The column of the declension tables that agrees with the phrase."""
        return "p" if self.is_plural else self.gender


PRONOUNS = {
    "I": Phrase(("ich", "mich", "mir", ""), "I", "me", "I", person=1, is_pronoun=True),
    "you": Phrase(("du", "dich", "dir", ""), "you", "you", "you", person=2, is_pronoun=True),
    "he": Phrase(("er", "ihn", "ihm", ""), "he", "him", "he", is_pronoun=True),
    "she": Phrase(("sie", "sie", "ihr", ""), "she", "her", "she", gender="f", is_pronoun=True),
    "we": Phrase(("wir", "uns", "uns", ""), "we", "us", "we", person=1, is_plural=True, is_pronoun=True),
    "all of you": Phrase(
        ("ihr", "euch", "euch", ""), "you", "you", "all of you", person=2, is_plural=True, is_pronoun=True
    ),
    "they": Phrase(("sie", "sie", "ihnen", ""), "they", "them", "they", is_plural=True, is_pronoun=True),
}
POLITE = Phrase(("Sie", "Sie", "Ihnen", ""), "you", "you", "polite you", is_plural=True, is_pronoun=True)
THING_PRONOUNS = {
    "m": replace(PRONOUNS["he"], english="it", english_object="it", refers="", is_human=False),
    "f": replace(PRONOUNS["she"], english="it", english_object="it", refers="", is_human=False),
    "n": Phrase(("es", "es", "ihm", ""), "it", "it", "", gender="n", is_pronoun=True, is_human=False),
    "p": replace(PRONOUNS["they"], refers="", is_human=False),
}
POSSESSIVES = {
    "I": ("mein", "my"),
    "you": ("dein", "your"),
    "he": ("sein", "his"),
    "she": ("ihr", "her"),
    "we": ("unser", "our"),
    "all of you": ("euer", "your"),
    "they": ("ihr", "their"),
    "polite you": ("Ihr", "your"),
}


def pick(random: Random, items: Sequence[Item]) -> Item:
    """One of the items, each equally likely; it needs nothing but random(), which no Python version
    changes."""
    return items[int(random.random() * len(items))]


def chance(random: Random, probability: float) -> bool:
    """True with this probability."""
    return random.random() < probability


def pronoun_for(phrase: Phrase) -> Phrase | None:
    """The pronoun that takes the phrase up again; None where the two languages would not agree on
    one."""
    if phrase.refers:
        return POLITE if phrase.refers == "polite you" else PRONOUNS[phrase.refers]
    return None if phrase.is_human else THING_PRONOUNS[phrase.column]


def reference_of(noun: Noun, *, is_plural: bool) -> str:
    """The English pronoun of a person; "" for things, animals, and for das Kind and das Mädchen."""
    if "person" not in noun.kinds:
        return ""
    return "they" if is_plural else {"m": "he", "f": "she", "n": ""}[noun.gender]


@cache
def article_phrase(
    noun: Noun, adjective: Adjective | None, article: str, *, is_plural: bool = False, owner: str = ""
) -> Phrase:
    """The phrase with an article: the, a, this, every, which, no, bare, many, or own with an
    `owner` from POSSESSIVES."""
    column = "p" if is_plural else noun.gender
    german = tuple(german_words(noun, adjective, article, case, column, owner) for case in CASES)
    head = (noun.english_plural if is_plural else noun.english) + noun.english_tail
    words = f"{adjective.english} {head}" if adjective else head
    plain_this = "these " if is_plural else "this "
    no_article = "any " if is_plural or "mass" in noun.kinds else ""
    leads = {
        "the": "the ",
        "this": plain_this,
        "every": "every ",
        "which": "which ",
        "bare": "",
        "many": "many ",
        "all": "all the ",
    }
    if article == "own":
        english = f"{POSSESSIVES[owner][1]} {words}"
    elif article == "a" or (article == "no" and not no_article):
        english = with_article(words)
    else:
        english = (no_article if article == "no" else leads[article]) + words
    assert len(german) == 4
    return Phrase(
        (german[0], german[1], german[2], german[3]),
        english,
        english,
        reference_of(noun, is_plural=is_plural),
        gender=noun.gender,
        is_plural=is_plural,
        is_definite=article not in ("a", "no", "bare", "many"),
        is_human="person" in noun.kinds,
        has_adjective=adjective is not None,
        head=noun.german,
    )


def german_words(noun: Noun, adjective: Adjective | None, article: str, case: str, column: str, owner: str) -> str:
    """Article, adjective and noun in one case, the adjective ending chosen by what the article
    shows."""
    endings = WEAK_ENDINGS
    if article == "the":
        lead = cell(DEFINITE, case, column)
    elif article in ("this", "every", "which", "all"):
        lead = {"this": "dies", "every": "jed", "which": "welch", "all": "all"}[article] + cell(
            DER_ENDINGS, case, column
        )
    elif article in ("bare", "many"):
        lead = "viel" + cell(DER_ENDINGS, case, column) if article == "many" else ""
        endings = STRONG_ENDINGS
    else:
        stem = {"a": "ein", "no": "kein"}.get(article) or POSSESSIVES[owner][0]
        lead = declined_stem(stem, cell(EIN_ENDINGS, case, column))
        endings = MIXED_ENDINGS
    middle = adjective.stem + cell(endings, case, column) if adjective and cell(endings, case, column) else ""
    return " ".join(word for word in (lead, middle, noun_form(noun, case, is_plural=column == "p")) if word)


def counted_phrase(noun: Noun, adjective: Adjective | None, number: int) -> Phrase:
    """The phrase with a number word: siebenundvierzig alte Bücher, forty-seven old books."""
    assert number % 100 != 1, number
    bare = article_phrase(noun, adjective, "bare", is_plural=True)
    german = german_number(number)
    forms = (
        f"{german} {bare.german[0]}",
        f"{german} {bare.german[1]}",
        f"{german} {bare.german[2]}",
        f"{german} {bare.german[3]}",
    )
    english = f"{english_number(number)} {bare.english}"
    return replace(bare, german=forms, english=english, english_object=english)


def name_phrase(random: Random) -> Phrase:
    """A person's first name, the same in both languages."""
    name, is_man = pick(random, names())
    genitive = name + ("'" if name.endswith(("s", "x", "z")) else "s")
    return Phrase(
        (name, name, name, genitive), name, name, "he" if is_man else "she", gender="m" if is_man else "f", head=name
    )


def pair_phrase(random: Random) -> Phrase:
    """Two people joined by und: Anna und Peter."""
    first, second = name_phrase(random), name_phrase(random)
    while second.english == first.english:
        second = name_phrase(random)
    german, english = f"{first.english} und {second.english}", f"{first.english} and {second.english}"
    return Phrase((german, german, german, ""), english, english, "they", is_plural=True)


def owned_phrase(owner: Phrase, owned: Phrase) -> Phrase:
    """What somebody owns: Annas Hut, Anna's hat; der Hut des Lehrers, the teacher's hat. `owned`
    comes with the article the."""
    mark = "'" if owner.is_plural and owner.english.endswith("s") else "'s"
    english = f"{owner.english}{mark} {owned.english.removeprefix('the ')}"
    forms = tuple(f"{owned.case(case)} {owner.case('gen')}" for case in CASES)
    return replace(owned, german=(forms[0], forms[1], forms[2], forms[3]), english=english, english_object=english)


def choose_noun(random: Random, kinds: str) -> Noun:
    """A noun of one of the kinds, a compound in about one case of four where there are any."""
    simple, compound = nouns_of(kinds, is_compound=False), nouns_of(kinds, is_compound=True)
    if compound and (not simple or chance(random, 0.25)):
        return pick(random, compound)
    return pick(random, simple)


def choose_adjective(random: Random, noun: Noun, *, probability: float = 0.3) -> Adjective | None:
    """An adjective that suits the noun, or None."""
    suitable = adjectives_for(noun.kinds)
    return pick(random, suitable) if suitable and chance(random, probability) else None


def choose_number(random: Random, noun: Noun) -> int:
    """A number from 2 to 12 for people, places and events, to 99 for what comes in larger
    numbers."""
    comes_in_numbers = any(kind in noun.kinds for kind in ("food", "message", "carry", "stood", "furniture"))
    return 2 + int(random.random() * (98 if comes_in_numbers and chance(random, 0.5) else 11))


def choose_article(random: Random, noun: Noun, owner: str) -> tuple[str, bool]:
    """An article and whether the phrase is plural, among those that suit the noun."""
    if "chosen" in noun.kinds:
        return "the", False
    if "mass" in noun.kinds:
        return ("the", False) if chance(random, 0.4) else ("bare", False)
    if "kin" in noun.kinds:
        return ("own", "single" not in noun.kinds and chance(random, 0.2)) if owner else ("the", False)
    can_be_owned = "near" in noun.kinds or not {"person", "public", "building", "wild", "asked"} & set(noun.kinds)
    if owner and can_be_owned and chance(random, 0.5 if "near" in noun.kinds else 0.2):
        return "own", "single" not in noun.kinds and chance(random, 0.2)
    roll = random.random() * (0.66 if "single" in noun.kinds else 1.0)
    for limit, article, is_plural in (
        (0.42, "the", False),
        (0.66, "a", False),
        (0.76, "the", True),
        (0.83, "this", False),
        (0.88, "many", True),
        (0.92, "all", True),
        (0.94, "this", True),
    ):
        if roll < limit:
            return article, is_plural
    return "number", True


def noun_phrase(random: Random, kinds: str, *, owner: str = "", is_negated: bool = False) -> Phrase:
    """A phrase about a noun of one of the kinds; `is_negated` turns a or nothing into kein."""
    noun = choose_noun(random, kinds)
    adjective = choose_adjective(random, noun)
    article, is_plural = choose_article(random, noun, owner)
    if is_negated and article in ("a", "bare", "many", "number"):
        return article_phrase(noun, adjective, "no", is_plural=is_plural)
    if article == "number":
        return counted_phrase(noun, adjective, choose_number(random, noun))
    return article_phrase(noun, adjective, article, is_plural=is_plural, owner=owner)
