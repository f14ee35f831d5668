"""English inflection for the built-in corpus: articles and verbs with their auxiliaries."""

from dataclasses import dataclass

DOUBLED = (
    "sit",
    "get",
    "put",
    "run",
    "forget",
    "begin",
    "win",
    "plan",
    "swim",
    "let",
    "stop",
    "cut",
    "travel",
    "cancel",
)
VOWEL_SOUND = ("a", "e", "i", "o", "u", "hour", "honest")
CONSONANT_SOUND = ("uni", "euro", "one")


@dataclass(frozen=True)
class EnglishVerb:
    """Principal parts; `particle` may follow a pronoun object (pick him up), `tail` never moves
    (fall asleep)."""

    base: str
    past: str = ""
    participle: str = ""
    particle: str = ""
    tail: str = ""


def with_article(phrase: str) -> str:
    """The phrase after a or an, by sound: an old university, a university."""
    has_vowel = phrase.startswith(VOWEL_SOUND) and not phrase.startswith(CONSONANT_SOUND)
    return ("an " if has_vowel else "a ") + phrase


def third_person(base: str) -> str:
    """The -s form: goes, watches, tidies, has."""
    if base == "have":
        return "has"
    if base.endswith(("s", "sh", "ch", "x", "z", "o")):
        return base + "es"
    if base.endswith("y") and base[-2] not in "aeiou":
        return base[:-1] + "ies"
    return base + "s"


def ing_form(base: str) -> str:
    """The -ing form: going, writing, lying, sitting."""
    if base in DOUBLED:
        return base + base[-1] + "ing"
    if base.endswith("ie"):
        return base[:-2] + "ying"
    if base.endswith("e") and not base.endswith("ee") and base != "be":
        return base[:-1] + "ing"
    return base + "ing"


def past_form(verb: EnglishVerb) -> str:
    """The simple past: called, tidied, went."""
    if verb.past:
        return verb.past
    if verb.base.endswith("e"):
        return verb.base + "d"
    if verb.base.endswith("y") and verb.base[-2] not in "aeiou":
        return verb.base[:-1] + "ied"
    return verb.base + (verb.base[-1] if verb.base in DOUBLED else "") + "ed"


def participle_form(verb: EnglishVerb) -> str:
    """The past participle: called, gone."""
    return verb.participle or past_form(verb)


def form_of_be(tense: str, person: int, *, is_plural: bool) -> str:
    """am, is, are, was, were."""
    is_singular = not is_plural and person != 2
    if tense == "past":
        return "was" if is_singular else "were"
    if not is_singular:
        return "are"
    return "am" if person == 1 else "is"


def finite_forms(
    verb: EnglishVerb, tense: str, person: int, *, is_plural: bool, needs_auxiliary: bool
) -> tuple[str, str]:
    """The auxiliary ("" if there is none) and the rest of the verb group.

    Tenses: present, past, progressive, future, perfect. Questions and negation need an auxiliary,
    which is do by default.
    """
    is_third = person == 3 and not is_plural
    if tense == "future":
        return "will", verb.base
    if tense == "perfect":
        return ("has" if is_third else "have"), participle_form(verb)
    if tense == "progressive":
        return form_of_be("present", person, is_plural=is_plural), ing_form(verb.base)
    if verb.base == "be":
        return form_of_be(tense, person, is_plural=is_plural), ""
    if needs_auxiliary:
        return ("did" if tense == "past" else "does" if is_third else "do"), verb.base
    if tense == "past":
        return "", past_form(verb)
    return "", third_person(verb.base) if is_third else verb.base


@dataclass(frozen=True)
class EnglishModal:
    """A modal as an auxiliary (can, could) or as a verb that is itself inflected and takes to (want
    to, be allowed to)."""

    auxiliary: str = ""
    past_auxiliary: str = ""
    verb: EnglishVerb | None = None
    link: str = ""


def modal_forms(
    modal: EnglishModal, base: str, tense: str, person: int, *, is_plural: bool, needs_auxiliary: bool
) -> tuple[str, str]:
    """The auxiliary and the rest of a verb group with a modal: ("can", "read"), ("does", "want to
    read"), ("", "had to read")."""
    if modal.verb is None:
        auxiliary = modal.past_auxiliary if tense == "past" else modal.auxiliary
        return auxiliary, f"{modal.link} {base}".strip()
    auxiliary, rest = finite_forms(modal.verb, tense, person, is_plural=is_plural, needs_auxiliary=needs_auxiliary)
    return auxiliary, f"{rest} {modal.link} {base}".strip()
