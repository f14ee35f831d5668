"""German inflection for the built-in corpus: articles, adjectives, nouns, pronouns and verbs."""

from dataclasses import dataclass
from functools import cache

from anydepth.demo.grammar.entries import Noun

CASES = ("nom", "acc", "dat", "gen")
# Rows are the cases in the order of CASES; columns are masculine, feminine, neuter and plural.
COLUMNS = "mfnp"
DEFINITE = ("der die das die", "den die das die", "dem der dem den", "des der des der")
RELATIVE = ("der die das die", "den die das die", "dem der dem denen", "dessen deren dessen deren")
DER_ENDINGS = ("er e es e", "en e es e", "em er em en", "es er es er")
EIN_ENDINGS = ("- e - e", "en e - e", "em er em en", "es er es er")
WEAK_ENDINGS = ("e e e en", "en e e en", "en en en en", "en en en en")
MIXED_ENDINGS = ("er e es en", "en e es en", "en en en en", "en en en en")
STRONG_ENDINGS = ("er e es e", "en e es e", "em er em en", "en er en er")
CONTRACTIONS = {
    "in dem": "im",
    "in das": "ins",
    "an dem": "am",
    "an das": "ans",
    "zu dem": "zum",
    "zu der": "zur",
    "von dem": "vom",
    "bei dem": "beim",
}

# Six present forms: ich du er wir ihr sie.
IRREGULAR_PRESENT = {
    "sein": "bin bist ist sind seid sind",
    "haben": "habe hast hat haben habt haben",
    "werden": "werde wirst wird werden werdet werden",
    "wissen": "weiß weißt weiß wissen wisst wissen",
    "mögen": "mag magst mag mögen mögt mögen",
    "können": "kann kannst kann können könnt können",
    "müssen": "muss musst muss müssen müsst müssen",
    "wollen": "will willst will wollen wollt wollen",
    "dürfen": "darf darfst darf dürfen dürft dürfen",
    "sollen": "soll sollst soll sollen sollt sollen",
    "möchten": "möchte möchtest möchte möchten möchtet möchten",
}
UNSTRESSED_PREFIXES = ("be", "ver", "er", "ge", "ent", "zer")


@cache
def cell(table: tuple[str, ...], case: str, column: str) -> str:
    """The entry of a declension table for a case and a column (m, f, n, p); "-" stands for
    nothing."""
    return table[CASES.index(case)].split()[COLUMNS.index(column)].strip("-")


def noun_form(noun: Noun, case: str, *, is_plural: bool) -> str:
    """The noun in a case and number: des Hundes, den Jungen, mit den Kindern."""
    if is_plural:
        needs_n = case == "dat" and not noun.plural.endswith(("n", "s"))
        return noun.plural + "n" * needs_n
    if noun.is_weak:
        return noun.german if case == "nom" else noun.plural
    if case == "gen" and noun.gender != "f":
        return noun.german + genitive_ending(noun)
    return noun.german


def genitive_ending(noun: Noun) -> str:
    """es after a sibilant or one syllable (Zuges, Schlosses), s otherwise (Lehrers) and for nouns
    with a plural in s (Chefs)."""
    word = noun.german
    if noun.plural in (word + "s", word + "se"):
        return noun.plural.removeprefix(word).replace("se", "ses")
    if word.endswith(("s", "ß", "z")):
        return "es"
    vowels = [letter in "aeiouäöü" for letter in word.lower()]
    syllables = sum(1 for before, here in zip([False, *vowels], vowels, strict=False) if here and not before)
    return "es" if syllables == 1 and not word.endswith(("e", "u", "h")) else "s"


def declined_stem(stem: str, ending: str) -> str:
    """A determiner stem with its ending; euer loses its second e: eure, euren."""
    return ("eur" if stem == "euer" and ending else stem) + ending


def with_preposition(preposition: str, phrase: str) -> str:
    """The preposition before the phrase, drawn together with a definite article: im Garten, zur
    Schule."""
    article, _, rest = phrase.partition(" ")
    contraction = CONTRACTIONS.get(f"{preposition} {article}")
    return f"{contraction} {rest}" if contraction and rest else f"{preposition} {phrase}"


@dataclass(frozen=True)
class GermanVerb:
    """Principal parts; `changed` is the stem of du and er where it differs (lies, fähr),
    `participle` is without the prefix."""

    infinitive: str
    prefix: str = ""
    changed: str = ""
    preterite: str = ""
    participle: str = ""
    auxiliary: str = "haben"
    is_reflexive: bool = False


def verb_stem(infinitive: str) -> str:
    """The infinitive without -en or -n."""
    return infinitive[:-2] if infinitive.endswith("en") else infinitive[:-1]


def needs_linking_e(stem: str) -> bool:
    """Whether t and st need an e before them: arbeitet, öffnet, but lernt and wohnt."""
    return stem.endswith(("t", "d")) or (stem[-1] in "mn" and stem[-2] not in "aeiouäöülrhmn")


def present_form(verb: GermanVerb, person: int, *, is_plural: bool) -> str:
    """The present without its prefix: person 1..3."""
    if verb.infinitive in IRREGULAR_PRESENT:
        return IRREGULAR_PRESENT[verb.infinitive].split()[person - 1 + 3 * is_plural]
    stem = verb_stem(verb.infinitive)
    link = "e" * needs_linking_e(stem)
    if is_plural:
        return stem + link + "t" if person == 2 else verb.infinitive
    if person == 1:
        return stem + "e"
    if verb.changed:
        stem, link = verb.changed, ""
    if person == 2:
        return stem + link + ("t" if stem.endswith(("s", "ß", "z")) else "st")
    return stem if verb.changed.endswith("t") else stem + link + "t"


def preterite_form(verb: GermanVerb, person: int, *, is_plural: bool) -> str:
    """The simple past without its prefix: rief, riefen, wartete, warteten."""
    stem = verb_stem(verb.infinitive)
    past = verb.preterite or stem + "e" * needs_linking_e(stem) + "te"
    if person == 2:
        return past + ("t" if is_plural else "st")
    if not is_plural:
        return past
    return past + ("n" if past.endswith("e") else "en")


def participle_form(verb: GermanVerb) -> str:
    """The past participle, with ge between prefix and stem: angerufen, eingekauft, vorbereitet,
    repariert."""
    if verb.participle:
        return verb.prefix + verb.participle
    stem = verb_stem(verb.infinitive)
    takes_ge = not verb.infinitive.endswith("ieren") and not verb.infinitive.startswith(UNSTRESSED_PREFIXES)
    return verb.prefix + "ge" * takes_ge + stem + "e" * needs_linking_e(stem) + "t"


def infinitive_form(verb: GermanVerb) -> str:
    """The infinitive in one word: anrufen."""
    return verb.prefix + verb.infinitive


def zu_infinitive(verb: GermanVerb) -> str:
    """The infinitive with zu, inside a separable verb: anzurufen, zu lesen."""
    return f"{verb.prefix}zu{verb.infinitive}" if verb.prefix else f"zu {verb.infinitive}"


def imperative_form(verb: GermanVerb) -> str:
    """The command to du without its prefix: ruf, lies, fahr, warte, repariere."""
    stem = verb_stem(verb.infinitive)
    if verb.changed and not set("äöü") & set(verb.changed):
        return verb.changed
    return stem + "e" * (needs_linking_e(stem) or stem.endswith(("er", "ig")))


REFLEXIVE = {(1, False): "mich", (2, False): "dich", (1, True): "uns", (2, True): "euch"}


def reflexive_pronoun(person: int, *, is_plural: bool) -> str:
    """mich, dich, sich, uns, euch."""
    return REFLEXIVE.get((person, is_plural), "sich")
