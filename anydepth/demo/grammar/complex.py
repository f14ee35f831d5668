"""Sentences of two clauses in the built-in corpus: reasons, conditions, reports, infinitives and
relative clauses."""

from collections.abc import Callable
from dataclasses import replace
from random import Random

from anydepth.demo.grammar.clauses import (
    Clause,
    english_gerund,
    english_infinitive,
    english_main,
    german_final,
    german_infinitive,
    german_main,
    german_question,
)
from anydepth.demo.grammar.english import EnglishVerb
from anydepth.demo.grammar.german import RELATIVE, GermanVerb, cell
from anydepth.demo.grammar.phrases import PRONOUNS, Phrase, chance, pick, pronoun_for
from anydepth.demo.grammar.scenes import act, choose_person, somebody_known, state
from anydepth.demo.grammar.sentences import WHO, Pair, main_pair
from anydepth.demo.grammar.verbs import (
    GOING,
    PURPOSES,
    TURNS,
    Frame,
    frames_about,
    frames_among,
    frames_for,
    frames_with_object,
)

WISHES = (
    (GermanVerb("versuchen"), EnglishVerb("try")),
    (GermanVerb("versprechen", "", "versprich", "versprach", "versprochen"), EnglishVerb("promise")),
    (GermanVerb("beschließen", "", "", "beschloss", "beschlossen"), EnglishVerb("decide")),
    (GermanVerb("hoffen"), EnglishVerb("hope")),
    (GermanVerb("vergessen", "", "vergiss", "vergaß", "vergessen"), EnglishVerb("forget", "forgot", "forgotten")),
    (GermanVerb("haben", "vor", "", "hatte", "gehabt"), EnglishVerb("intend")),
)
BELIEFS = (
    (GermanVerb("wissen", "", "", "wusste", "gewusst"), EnglishVerb("know", "knew", "known")),
    (GermanVerb("glauben"), EnglishVerb("believe")),
    (GermanVerb("sagen"), EnglishVerb("say", "said", "said")),
    (GermanVerb("hoffen"), EnglishVerb("hope")),
    (GermanVerb("hören"), EnglishVerb("hear", "heard", "heard")),
)
JUDGEMENTS = (
    ("wichtig", "important"),
    ("schwierig", "difficult"),
    ("schön", "nice"),
    ("gefährlich", "dangerous"),
    ("langweilig", "boring"),
)
LOOSE_SPHERES = ("past", "past", "now", "modal", "future")


def somebody_and_pronoun(random: Random) -> tuple[Phrase, Phrase]:
    """A person and the pronoun that takes the person up again."""
    subject = somebody_known(random)
    same = pronoun_for(subject)
    assert same is not None
    return subject, same


def reason(random: Random) -> Pair:
    """Two clauses joined by weil or obwohl: the second tells the state, the duty or the deed behind
    the first."""
    word, english = pick(random, (("weil", "because"), ("obwohl", "although")))
    subject, same = somebody_and_pronoun(random)
    first = act(
        random, subject=subject, sphere=pick(random, LOOSE_SPHERES), negation_share=0.2 if word == "weil" else 0.0
    )
    is_past = first.english_tense == "past"
    roll = random.random()
    if roll < 0.45:
        second = state(random, same, tense="preterite" if is_past and same.person != 2 else "present")
    elif roll < 0.75:
        second = act(random, subject=same, sphere="past modal" if is_past else "modal")
    else:
        second = act(random, subject=choose_person(random), sphere="past", negation_share=0.0)
    german, lead = main_pair(random, first)
    return f"{german}, {german_final(second, opener=word)}", f"{lead} {english_main(second, opener=english)}"


def condition(random: Random) -> Pair:
    """A wenn clause before the main clause, which then starts with its verb and speaks of the
    future."""
    subject, same = somebody_and_pronoun(random)
    first = (
        state(random, subject)
        if chance(random, 0.3)
        else turn(random, subject, sphere="habit", english_tense="present")
    )
    second = act(random, subject=same, sphere="future", negation_share=0.1)
    second = replace(second, time=None, modal=None, english_tense="future")
    german = f"{german_final(first, opener='wenn')}, {german_question(second)}"
    return german, f"{english_main(first, opener='if')}, {english_main(second)}"


def turn(random: Random, subject: Phrase, *, sphere: str, english_tense: str) -> Clause:
    """A turn of events without adverbials, in the present or the preterite: Anna den Zug verpasst,
    Anna ankam."""
    clause = act(random, subject=subject, sphere=sphere, negation_share=0.1, frame=pick(random, frames_among(TURNS)))
    tense = "preterite" if english_tense == "past" else "present"
    return replace(clause, german_tense=tense, english_tense=english_tense, time=None, frequency=None)


def arrival(random: Random) -> Pair:
    """What happened when somebody arrived, woke up, lost something: als and two preterites."""
    subject, same = somebody_and_pronoun(random)
    while subject.person == 2:
        subject, same = somebody_and_pronoun(random)
    first = replace(turn(random, subject, sphere="past", english_tense="past"), negation="")
    second = tale(random, same if chance(random, 0.6) else choose_person(random))
    while first.pieces and first.pieces[0].german.startswith("kein"):
        first = replace(turn(random, subject, sphere="past", english_tense="past"), negation="")
    return (
        f"{german_final(first, opener='als')}, {german_question(second)}",
        f"{english_main(first, opener='when')}, {english_main(second)}",
    )


def earlier(random: Random) -> Pair:
    """What happened before something else: bevor and two preterites."""
    subject, same = somebody_and_pronoun(random)
    while subject.person == 2:
        subject, same = somebody_and_pronoun(random)
    first, second = tale(random, subject), tale(random, same if chance(random, 0.6) else choose_person(random))
    return (
        f"{german_main(first)}, {german_final(second, opener='bevor')}",
        f"{english_main(first)} {english_main(second, opener='before')}",
    )


def tale(random: Random, subject: Phrase) -> Clause:
    """An act in the preterite without a time."""
    clause = act(
        random, subject=subject, sphere="past", negation_share=0.0, frame=pick(random, frames_for("person", "d"))
    )
    return replace(clause, german_tense="preterite", time=None)


def bare_frame(verbs: tuple[GermanVerb, EnglishVerb]) -> Frame:
    """A frame without complements, for verbs that govern a clause."""
    return Frame(verbs[0], verbs[1], "s", "person", ())


def belief(random: Random) -> Pair:
    """A clause with dass after a verb of saying or thinking."""
    verbs = pick(random, BELIEFS)
    subject = somebody_known(random)
    is_past = chance(random, 0.3) and subject.person != 2
    lead = Clause(
        subject, bare_frame(verbs), (), "preterite" if is_past else "present", "past" if is_past else "present"
    )
    other = pronoun_for(subject) if chance(random, 0.2) else choose_person(random)
    assert other is not None
    sphere = "past" if is_past else pick(random, LOOSE_SPHERES)
    clause = act(random, subject=other, sphere=sphere)
    return (
        f"{german_main(lead)}, {german_final(clause, opener='dass')}",
        f"{english_main(lead)} {english_main(clause, opener='that')}",
    )


def indirect_question(random: Random) -> Pair:
    """A clause with ob, wann, warum or wer after not knowing or asking."""
    subject = somebody_known(random)
    knows = chance(random, 0.6)
    verbs = BELIEFS[0] if knows else (GermanVerb("fragen", is_reflexive=True), EnglishVerb("wonder"))
    lead = Clause(subject, bare_frame(verbs), negation="nicht" if knows else "")
    word, english = pick(random, (("ob", "whether"), ("wann", "when"), ("warum", "why"), ("wer", "who")))
    doer = WHO if word == "wer" else choose_person(random)
    clause = act(
        random,
        subject=doer,
        sphere=pick(random, LOOSE_SPHERES if word != "wann" else ("past", "future")),
        negation_share=0.0,
    )
    clause = replace(clause, time=None) if word == "wann" else clause
    german = german_final(clause, opener=word, has_gap=word == "wer")
    return (
        f"{german_main(lead)}, {german}",
        f"{english_main(lead)} {english_main(clause, opener=english, has_gap=word == 'wer')}",
    )


def infinitive_act(random: Random, subject: Phrase) -> Clause:
    """What somebody tries or hopes to do."""
    clause = act(
        random, subject=subject, sphere="modal", negation_share=0.0, frame=pick(random, frames_with_object("d"))
    )
    return replace(clause, modal=None, time=None) if chance(random, 0.7) else replace(clause, modal=None)


def wish(random: Random) -> Pair:
    """A verb such as versuchen with a zu infinitive."""
    subject = somebody_known(random)
    is_past = chance(random, 0.6)
    lead = Clause(
        subject,
        bare_frame(pick(random, WISHES)),
        (),
        "perfect" if is_past else "present",
        "past" if is_past else "present",
    )
    clause = infinitive_act(random, subject)
    clause = replace(clause, time=None) if is_past else clause
    return f"{german_main(lead)}, {german_infinitive(clause)}", f"{english_main(lead)} {english_infinitive(clause)}"


def purpose(random: Random) -> Pair:
    """A going somewhere with um ... zu or ohne ... zu."""
    subject = somebody_known(random)
    lead = act(
        random,
        subject=subject,
        sphere=pick(random, ("past", "modal", "now", "future")),
        negation_share=0.0,
        frame=pick(random, frames_among(GOING)),
    )
    german, english = main_pair(random, lead)
    if chance(random, 0.35):
        clause = replace(infinitive_act(random, subject), time=None)
        return (
            f"{german}, {german_infinitive(clause, opener='ohne')}",
            f"{english} {english_gerund(clause, opener='without')}",
        )
    aim = act(random, subject=subject, sphere="modal", negation_share=0.0, frame=pick(random, frames_among(PURPOSES)))
    clause = replace(aim, modal=None, time=None)
    return (
        f"{german}, {german_infinitive(clause, opener='um')}",
        f"{english} {english_infinitive(clause, opener='in order to')}",
    )


def judgement(random: Random) -> Pair:
    """It is important to do something."""
    german, english = pick(random, JUDGEMENTS)
    clause = replace(infinitive_act(random, replace(PRONOUNS["he"], refers="")), time=None)
    while clause.frame.german.is_reflexive:
        clause = replace(infinitive_act(random, replace(PRONOUNS["he"], refers="")), time=None)
    lead, english_lead = ("es war", "it was") if chance(random, 0.4) else ("es ist", "it is")
    return f"{lead} {german}, {german_infinitive(clause)}", f"{english_lead} {english} {english_infinitive(clause)}"


def is_restrictable(phrase: Phrase) -> bool:
    """Whether a relative clause without commas can follow in English: not after names, my brother
    or the head of the school."""
    return (
        phrase.english.startswith(("the ", "a ", "an ")) and "'" not in phrase.english and " of " not in phrase.english
    )


def relative_subject(random: Random) -> Pair:
    """A subject with a relative clause: der Mann, der den Brief geschrieben hat, wohnt in Köln."""
    while True:
        subject = choose_person(random)
        if is_restrictable(subject):
            break
    inner = replace(act(random, subject=subject, sphere=pick(random, ("past", "now"))), time=None)
    pronoun = cell(RELATIVE, "nom", subject.column)
    german = f"{subject.case('nom')}, {german_final(inner, opener=pronoun, has_gap=True)},"
    english = f"{subject.english} {english_main(inner, opener='who', has_gap=True)}"
    whole = replace(subject, german=(german, "", "", ""), english=english)
    outer = act(random, subject=whole, sphere=pick(random, ("past", "now", "future")))
    return german_main(outer), english_main(outer)


def relative_object(random: Random) -> Pair:
    """A last object with a relative clause in which it is itself an object: das Buch, das Anna
    gekauft hat."""
    while True:
        frame = pick(random, frames_with_object("ds"))
        sphere = pick(random, ("past", "now", "modal")) if frame.aspect == "d" else "now"
        outer = act(random, sphere=sphere, frame=frame, negation_share=0.05)
        last = outer.pieces[-1]
        options = [
            other
            for other in frames_about(frame.complements[-1].kinds)
            if other.german.infinitive != frame.german.infinitive
        ]
        is_last_in_english = not any(piece.english_preposition for piece in outer.pieces[:-1])
        if options and is_last_in_english and last.phrase is not None and is_restrictable(last.phrase):
            break
    sphere = pick(random, ("past", "now"))
    inner = act(random, subject=choose_person(random), sphere=sphere, negation_share=0.0, frame=pick(random, options))
    complement = inner.frame.complements[-1]
    gap = next(
        piece for piece in inner.pieces if (piece.case, piece.preposition) == (complement.case, complement.preposition)
    )
    pronoun = f"{gap.preposition} {cell(RELATIVE, gap.case, last.phrase.column)}".strip()
    outer = replace(outer, time=None)
    german = f"{german_main(outer)}, {german_final(inner, opener=pronoun, asked=gap)}"
    who = "whom" if last.phrase.is_human else "that"
    return german, f"{english_main(outer)} {english_main(inner, opener=who, asked=gap)}"


def contrast(random: Random) -> Pair:
    """Two main clauses joined by und or aber, about two people or about one person twice."""
    word, english = pick(random, (("und", "and"), ("aber", "but")))
    subject = somebody_known(random)
    other = choose_person(random) if chance(random, 0.5) else pronoun_for(subject)
    assert other is not None
    sphere = pick(random, ("past", "now", "modal", "habit"))
    first = act(random, subject=subject, sphere=sphere, negation_share=0.0)
    second = act(random, subject=other, sphere=sphere, negation_share=0.5 if word == "aber" else 0.0)
    second = replace(second, time=None) if sphere != "habit" else second
    comma = "," if word == "aber" else ""
    german, lead = main_pair(random, first)
    return f"{german}{comma} {word} {german_main(second)}", f"{lead}{comma} {english} {english_main(second)}"


COMPLEX: tuple[tuple[float, Callable[[Random], Pair]], ...] = (
    (8.0, reason),
    (4.0, condition),
    (2.5, arrival),
    (2.5, earlier),
    (5.0, belief),
    (4.0, indirect_question),
    (5.0, wish),
    (4.0, purpose),
    (2.0, judgement),
    (5.0, relative_subject),
    (4.0, relative_object),
    (4.0, contrast),
)
