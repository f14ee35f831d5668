"""Random clauses of the built-in corpus that make sense: a verb, a subject and complements that
suit it, a time."""

from dataclasses import replace
from random import Random

from anydepth.demo.grammar.clauses import Adverbial, Clause, Piece
from anydepth.demo.grammar.entries import Noun, Place, cities, countries, nouns_of, places_of
from anydepth.demo.grammar.german import with_preposition
from anydepth.demo.grammar.phrases import (
    PRONOUNS,
    Phrase,
    article_phrase,
    chance,
    choose_adjective,
    choose_noun,
    name_phrase,
    noun_phrase,
    owned_phrase,
    pair_phrase,
    pick,
    pronoun_for,
)
from anydepth.demo.grammar.times import choose_sphere, choose_timing
from anydepth.demo.grammar.verbs import COPULA, Complement, Frame, frames_for, frames_of

SURFACES = (
    ("auf", "on", "top"),
    ("neben", "next to", "furniture"),
    ("unter", "under", "top"),
    ("vor", "in front of", "furniture"),
    ("hinter", "behind", "furniture"),
)
WALLS = (("an der Wand", "on the wall"), ("an der Decke", "on the ceiling"), ("über dem Bett", "above the bed"))
STATES = (("müde", "tired"), ("krank", "sick"), ("traurig", "sad"), ("glücklich", "happy"), ("hungrig", "hungry"))
# As an accusative, sie could mean her or them: the corpus uses it for her only.
OBJECT_PRONOUNS = {"acc": ("I", "you", "he", "she", "we"), "dat": ("I", "you", "he", "she", "we", "they")}


def choose_person(random: Random, *, owner: str = "") -> Phrase:
    """A person to do something: a name, a noun, two names, or somebody's relative."""
    roll = random.random()
    if roll < 0.36:
        return name_phrase(random)
    if roll < 0.42:
        return pair_phrase(random)
    if roll < 0.5:
        return relative_of_somebody(random)
    return noun_phrase(random, "person", owner=owner or pick(random, ("I", "you", "we")))


def relative_of_somebody(random: Random) -> Phrase:
    """Somebody's relative or friend: der Bruder des Arztes, the doctor's brother."""
    owned = article_phrase(choose_simple(random, "kin+friend"), None, "the")
    if chance(random, 0.4):
        return owned_phrase_of_name(random, owned)
    owner = article_phrase(choose_simple(random, "stranger"), None, "the", is_plural=chance(random, 0.15))
    return owned_phrase(owner, owned)


def owned_phrase_of_name(random: Random, owned: Phrase) -> Phrase:
    """A named person's relative or thing: Annas Bruder, Anna's brother."""
    owner = name_phrase(random)
    while not owner.case("gen").endswith("s"):
        owner = name_phrase(random)
    german = owner.case("gen") + " " + owned.case("nom").partition(" ")[2]
    oblique = owner.case("gen") + " " + owned.case("acc").partition(" ")[2]
    english = f"{owner.english}'s {owned.english.removeprefix('the ')}"
    return replace(owned, german=(german, oblique, oblique, ""), english=english, english_object=english)


def choose_simple(random: Random, kinds: str) -> Noun:
    """A noun of one of the kinds that is not a compound."""
    return pick(random, nouns_of(kinds, is_compound=False))


def choose_subject(random: Random, kinds: str) -> Phrase:
    """A subject of one of the kinds, a pronoun in one case of four if it can be a person."""
    options = kinds.split("+")
    if "person" in options and (len(options) == 1 or chance(random, 0.7)):
        return pick(random, tuple(PRONOUNS.values())) if chance(random, 0.27) else choose_person(random)
    noun = choose_noun(random, "+".join(kind for kind in options if kind != "person"))
    return article_phrase(
        noun, choose_adjective(random, noun), "this" if chance(random, 0.15) else "the", is_plural=chance(random, 0.2)
    )


def place_phrase(place: Place, random: Random) -> Phrase:
    """The place with its article, sometimes with an adjective."""
    return article_phrase(place.noun, choose_adjective(random, place.noun, probability=0.3), "the")


def resting_place(random: Random, kinds: str) -> Piece:
    """A place where something is: im Garten, in the garden."""
    place = pick(random, places_of(kinds))
    phrase = place_phrase(place, random)
    return Piece(
        with_preposition(place.at_rest, phrase.case("dat")), f"{place.at_rest_english} {phrase.english}", asks="wo"
    )


def arrival_place(random: Random) -> Piece:
    """A place where somebody arrives, which English reaches by at: in der Schule, at the school."""
    place = pick(random, places_of("building"))
    phrase = place_phrase(place, random)
    return Piece(with_preposition(place.at_rest, phrase.case("dat")), f"at {phrase.english}", asks="wo")


def goal(random: Random, kinds: str) -> Piece:
    """A place where somebody goes: in den Garten, zum Bahnhof."""
    place = pick(random, places_of(kinds))
    phrase = place_phrase(place, random)
    case = "dat" if place.towards == "zu" else "acc"
    return Piece(
        with_preposition(place.towards, phrase.case(case)),
        f"to {phrase.english}",
        asks="wohin",
        english_preposition="to",
    )


def origin(random: Random) -> Piece:
    """A place where somebody comes from: aus dem Wald, vom Bahnhof, aus Köln."""
    if chance(random, 0.5):
        german, english = pick(random, cities() + countries())
        return Piece(f"aus {german}", f"from {english}", asks="woher", english_preposition="from")
    place = pick(random, places_of("building+area"))
    phrase = place_phrase(place, random)
    return Piece(
        with_preposition("aus" if place.at_rest == "in" else "von", phrase.case("dat")),
        f"from {phrase.english}",
        asks="woher",
        english_preposition="from",
    )


def city(random: Random, german_preposition: str, english_preposition: str) -> Piece:
    """A city, or sometimes a country, after a preposition."""
    german, english = pick(random, countries() if chance(random, 0.27) else cities())
    return Piece(
        f"{german_preposition} {german}",
        f"{english_preposition} {english}",
        asks="wo" if german_preposition == "in" else "wohin",
        english_preposition="" if english_preposition == "in" else english_preposition,
    )


def surface(random: Random, case: str) -> Piece:
    """A spot at a piece of furniture: auf dem Tisch at rest, auf den Tisch for motion."""
    preposition, english, kinds = pick(random, SURFACES)
    noun = choose_noun(random, kinds)
    phrase = article_phrase(noun, choose_adjective(random, noun, probability=0.2), "the")
    return Piece(
        with_preposition(preposition, phrase.case(case)),
        f"{english} {phrase.english}",
        asks="wo" if case == "dat" else "wohin",
    )


def seat(random: Random) -> Piece:
    """Something to sit on; here Bank is a bench."""
    noun = choose_simple(random, "seat+bench") if chance(random, 0.5) else choose_simple(random, "bench")
    phrase = article_phrase(
        noun, choose_adjective(random, noun, probability=0.2), "a" if chance(random, 0.3) else "the"
    )
    return Piece(f"auf {phrase.case('dat')}", f"on {phrase.english}", asks="wo")


def choose_place(random: Random, manner: str) -> tuple[Piece, ...]:
    """The place that a frame asks for by its manner; optional manners may give none."""
    if manner == "place":
        return (resting_place(random, "building+area+room"),) if chance(random, 0.7) else ()
    if manner == "stay":
        return (resting_place(random, "building+area+room"),)
    if manner == "in_town":
        return (resting_place(random, "area"),) if chance(random, 0.3) else ()
    if manner == "at_work":
        return (resting_place(random, "work"),)
    if manner == "in_home":
        return (resting_place(random, "home+castle"),)
    if manner == "at_bank":
        noun = next(place for place in places_of("bank"))
        return (Piece(f"bei {article_phrase(noun.noun, None, 'the').case('dat')}", "at the bank"),)
    if manner in ("to", "to_room"):
        return (goal(random, "room" if manner == "to_room" else "building+area+bank"),)
    if manner in ("to_city", "in_city"):
        return (city(random, "nach", "to") if manner == "to_city" else city(random, "in", "in"),)
    if manner == "city":
        return (city(random, "in", "in"),) if chance(random, 0.6) else (arrival_place(random),)
    if manner == "queue":
        return (Piece("in der Schlange", "in the queue", asks="wo"),)
    if manner == "on_wall":
        return (Piece(*pick(random, WALLS), asks="wo"),)
    makers = {
        "from": lambda: origin(random),
        "seat": lambda: seat(random),
        "on_top": lambda: surface(random, "dat"),
        "onto_top": lambda: surface(random, "acc"),
    }
    return (makers[manner](),)


def complement_piece(random: Random, complement: Complement, subject: Phrase, *, is_negated: bool) -> Piece:
    """The complement filled with a phrase; people may be pronouns, other people than the
    subject."""
    while True:
        piece = any_piece(random, complement, subject, is_negated=is_negated)
        if piece.phrase is None or not subject.head or piece.phrase.head != subject.head:
            return piece


def any_piece(random: Random, complement: Complement, subject: Phrase, *, is_negated: bool) -> Piece:
    """The complement filled with a phrase, be it about the subject itself."""
    is_object = not complement.preposition
    if complement.kinds == "person" and chance(random, 0.5):
        phrase = choose_person(random, owner=subject.refers)
    elif complement.kinds == "person" and chance(random, 0.3):
        options = [key for key in OBJECT_PRONOUNS[complement.case] if PRONOUNS[key].person != subject.person]
        phrase = PRONOUNS[pick(random, options)] if options else name_phrase(random)
    else:
        phrase = noun_phrase(random, complement.kinds, owner=subject.refers, is_negated=is_negated and is_object)
    return filled(complement, phrase)


def filled(complement: Complement, phrase: Phrase) -> Piece:
    """The complement with this phrase in it."""
    german = phrase.case(complement.case)
    if complement.preposition:
        german = with_preposition(complement.preposition, german)
    english = f"{complement.english_preposition} {phrase.english_object}".strip()
    return Piece(
        german,
        english,
        not complement.preposition,
        phrase,
        complement.case,
        complement.preposition,
        complement.english_preposition,
    )


def choose_pieces(random: Random, frame: Frame, subject: Phrase, *, is_negated: bool) -> tuple[Piece, ...]:
    """All complements of the frame; only the accusative object may turn into kein."""
    pieces: list[Piece] = []
    for complement in frame.complements:
        if complement.place:
            pieces += choose_place(random, complement.place)
        else:
            pieces.append(
                complement_piece(random, complement, subject, is_negated=is_negated and complement.case == "acc")
            )
    pronouns = [piece for piece in pieces if piece.is_pronoun and piece.case == "acc"]
    return tuple(pronouns + [piece for piece in pieces if piece not in pronouns])


def act(
    random: Random,
    *,
    subject: Phrase | None = None,
    sphere: str = "",
    negation_share: float = 0.12,
    frame: Frame | None = None,
) -> Clause:
    """A clause about what `subject`, or anybody, does in a sphere (see times); sphere and verb are
    free by default."""
    frame = frame or choose_frame(random, sphere, has_person=subject is not None)
    doer = subject or choose_subject(random, frame.subjects)
    sphere = sphere or choose_sphere(random, frame.aspect)
    if not doer.is_human and "modal" in sphere:
        sphere = "past"
    if sphere == "done" and not any(complement.case == "acc" for complement in frame.complements):
        sphere = "past"
    timing = choose_timing(random, sphere, frame, has_preterite=doer.person != 2)
    is_negated = chance(random, negation_share) and (timing.frequency is None or sphere == "done")
    pieces = choose_pieces(random, frame, doer, is_negated=is_negated and sphere != "done")
    negation = ""
    if is_negated:
        has_kein = any(piece.german.startswith("kein") for piece in pieces)
        negation = "kein" if has_kein else "noch nicht" if sphere == "done" else "nicht"
    frequency = None if is_negated else timing.frequency
    return Clause(
        doer, frame, pieces, timing.german_tense, timing.english_tense, timing.modal, negation, timing.time, frequency
    )


def choose_frame(random: Random, sphere: str, *, has_person: bool) -> Frame:
    """A frame that can stand in the sphere; with a person as its subject if that is settled."""
    aspects = {"": "des", "past": "des", "habit": "de", "done": "de", "now": "ds"}.get(sphere, "d")
    return pick(random, frames_for("person", aspects) if has_person else frames_of(aspects))


def state(random: Random, subject: Phrase, *, tense: str = "present") -> Clause:
    """A clause about how the subject is: sie ist müde."""
    adverb = ("sehr ", "very ") if chance(random, 0.4) else ("", "")
    german, english = pick(random, STATES)
    negation = "nicht" if chance(random, 0.15) else ""
    return Clause(
        subject,
        COPULA,
        (),
        tense,
        "past" if tense == "preterite" else "present",
        negation=negation,
        predicate=Adverbial(adverb[0] + german, adverb[1] + english),
    )


def somebody_known(random: Random) -> Phrase:
    """A subject that a pronoun can take up again in the next clause."""
    while True:
        subject = choose_subject(random, "person")
        if pronoun_for(subject) is not None:
            return subject
