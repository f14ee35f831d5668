"""Sentences of one clause in the built-in corpus: statements, questions and commands, before the
final touches."""

from collections.abc import Callable
from dataclasses import replace
from random import Random

from anydepth.demo.grammar.clauses import (
    Clause,
    Piece,
    english_command,
    english_main,
    english_question,
    german_command,
    german_main,
    german_question,
)
from anydepth.demo.grammar.phrases import POLITE, PRONOUNS, Phrase, article_phrase, chance, choose_noun, pick
from anydepth.demo.grammar.scenes import act, choose_person
from anydepth.demo.grammar.verbs import frames_for, frames_with_object

Pair = tuple[str, str]

WHO = Phrase(("wer", "wen", "wem", "wessen"), "who", "whom", "")


def choose_front(random: Random, clause: Clause) -> str:
    """The element that opens the German clause: subject, time or place; gerade and a negated place
    do not."""
    roll = random.random()
    if roll < 0.45 and clause.time and clause.time.german != "gerade":
        return "time"
    if 0.45 <= roll < 0.6 and not clause.negation:
        return "place"
    return "subject"


def main_pair(random: Random, clause: Clause) -> Pair:
    """The clause as a statement; a fronted time is fronted in English too, a fronted place is
    not."""
    front = choose_front(random, clause)
    return german_main(clause, front=front), english_main(clause, is_time_first=front == "time")


def statement(random: Random) -> Pair:
    """A simple statement."""
    return main_pair(random, act(random))


def yes_no_question(random: Random) -> Pair:
    """A question that starts with the verb, sometimes to Sie."""
    subject = POLITE if chance(random, 0.2) else PRONOUNS["you"] if chance(random, 0.3) else choose_person(random)
    clause = act(random, subject=subject, negation_share=0.08)
    return german_question(clause) + "?", english_question(clause) + "?"


def word_question(random: Random) -> Pair:
    """A question with wann, warum or wer."""
    word, english = pick(random, (("wann", "when"), ("warum", "why"), ("wer", "who")))
    if word == "wer":
        clause = act(random, subject=WHO)
        return german_main(clause) + "?", english_main(clause) + "?"
    sphere = pick(random, ("past", "future", "modal") if word == "wann" else ("past", "now", "modal", "habit"))
    clause = act(
        random, subject=choose_person(random) if chance(random, 0.7) else POLITE, sphere=sphere, negation_share=0.0
    )
    clause = replace(clause, time=None) if word == "wann" else clause
    return german_question(clause, word) + "?", english_question(clause, english) + "?"


def asked_word(piece: Piece) -> Pair:
    """The question word for a piece that holds a phrase: wen, wem, was, auf wen; the English
    preposition stays behind."""
    assert piece.phrase is not None
    if piece.phrase.is_human:
        word = {"acc": "wen", "dat": "wem"}[piece.case]
        return f"{piece.preposition} {word}".strip(), "whom"
    if not piece.preposition:
        return "was", "what"
    vowel = piece.preposition[0] in "aeiouäöü"
    return ("wor" if vowel else "wo") + piece.preposition, "what"


def object_question(random: Random) -> Pair:
    """A question for an object: was, wen, wem, worauf."""
    while True:
        clause = act(
            random, subject=choose_person(random) if chance(random, 0.7) else PRONOUNS["you"], negation_share=0.0
        )
        asked = [piece for piece in clause.pieces if piece.phrase is not None]
        if asked:
            word, english = asked_word(asked[0])
            return german_question(clause, word, asked=asked[0]) + "?", english_question(
                clause, english, asked=asked[0]
            ) + "?"


def place_question(random: Random) -> Pair:
    """A question for a place: wo, wohin, woher."""
    while True:
        clause = act(
            random, subject=choose_person(random) if chance(random, 0.7) else PRONOUNS["you"], negation_share=0.0
        )
        last = clause.pieces[-1] if clause.pieces else None
        if last is not None and last.asks:
            return german_question(clause, last.asks, asked=last) + "?", english_question(
                clause, "where", asked=last
            ) + "?"


def which_question(random: Random) -> Pair:
    """A question for one of several things: welches Buch, wie viele Bücher."""
    frame = pick(random, [frame for frame in frames_with_object("de") if frame.complements[-1].is_plain_object])
    last = frame.complements[-1]
    clause = act(
        random,
        subject=choose_person(random) if chance(random, 0.7) else PRONOUNS["you"],
        frame=frame,
        negation_share=0.0,
    )
    noun = choose_noun(random, last.kinds)
    if {"chosen", "mass", "kin"} & set(noun.kinds):
        return object_question(random)
    if chance(random, 0.4):
        bare = article_phrase(noun, None, "bare", is_plural=True)
        word, english = f"wie viele {bare.case('acc')}", f"how many {bare.english}"
    else:
        phrase = article_phrase(noun, None, "which", is_plural=chance(random, 0.2))
        word, english = phrase.case("acc"), phrase.english
    asked = next(piece for piece in clause.pieces if piece.case == "acc")
    return german_question(clause, word, asked=asked) + "?", english_question(clause, english, asked=asked) + "?"


def command(random: Random) -> Pair:
    """A command to du or Sie; with nicht it is a warning."""
    is_polite = chance(random, 0.5)
    frame = pick(random, frames_for("person", "d"))
    clause = act(
        random, subject=POLITE if is_polite else PRONOUNS["you"], sphere="now", negation_share=0.15, frame=frame
    )
    if clause.negation or chance(random, 0.5) or (clause.time and clause.time.german in ("gerade", "im Moment")):
        clause = replace(clause, time=None)
    return german_command(clause, is_polite=is_polite) + "!", english_command(clause) + "!"


SIMPLE: tuple[tuple[float, Callable[[Random], Pair]], ...] = (
    (24.0, statement),
    (6.0, yes_no_question),
    (4.0, word_question),
    (2.5, object_question),
    (1.5, place_question),
    (2.0, which_question),
    (6.0, command),
)
