"""Clauses of the built-in corpus and their word order: one meaning, put in order by the rules of
German and of English."""

from dataclasses import dataclass

from anydepth.demo.grammar import english, german
from anydepth.demo.grammar.phrases import Phrase
from anydepth.demo.grammar.verbs import Frame, Modal


@dataclass(frozen=True)
class Piece:
    """A complement or place in both languages; `phrase` and the prepositions are kept so that it
    can be asked for.

    For a place, `asks` is its question word: wo, wohin or woher.
    """

    german: str
    english: str
    is_object: bool = False
    phrase: Phrase | None = None
    case: str = ""
    preposition: str = ""
    english_preposition: str = ""
    asks: str = ""

    @property
    def is_pronoun(self) -> bool:
        """Whether the piece is a bare pronoun, which German moves to the front of the middle
        field."""
        return self.is_object and self.phrase is not None and self.phrase.is_pronoun

    @property
    def is_definite(self) -> bool:
        """Whether the piece is an object that stands before nicht."""
        return self.is_object and self.phrase is not None and self.phrase.is_definite


@dataclass(frozen=True)
class Adverbial:
    """An expression of time or frequency."""

    german: str
    english: str


@dataclass(frozen=True)
class Clause:
    """A predication. `negation` is "", nicht, noch nicht or kein, where kein already stands inside
    an object.

    `english_tense` is separate since German has one present for present, progressive and future.
    """

    subject: Phrase
    frame: Frame
    pieces: tuple[Piece, ...] = ()
    german_tense: str = "present"
    english_tense: str = "present"
    modal: Modal | None = None
    negation: str = ""
    time: Adverbial | None = None
    frequency: Adverbial | None = None
    predicate: Adverbial | None = None


def joined(words: list[str]) -> str:
    """The words that are not empty, with spaces between."""
    return " ".join(word for word in words if word)


def german_verbs(clause: Clause) -> tuple[str, str]:
    """The finite verb and what closes the main clause: (ruft, an), (hat, angerufen), (will,
    anrufen)."""
    verb, subject = clause.frame.german, clause.subject
    if clause.modal is not None:
        inflect = german.present_form if clause.german_tense == "present" else german.preterite_form
        return inflect(clause.modal.german, subject.person, is_plural=subject.is_plural), german.infinitive_form(verb)
    if clause.german_tense == "perfect":
        auxiliary = german.GermanVerb(verb.auxiliary)
        return (
            german.present_form(auxiliary, subject.person, is_plural=subject.is_plural),
            german.participle_form(verb),
        )
    inflect = german.present_form if clause.german_tense == "present" else german.preterite_form
    return inflect(verb, subject.person, is_plural=subject.is_plural), verb.prefix


def middle_field(clause: Clause, *, leaves_out_time: bool = False, leaves_out: Piece | None = None) -> list[str]:
    """Everything between the verbs except the subject.

    Pronouns come first. Negation and nie or schon follow definite objects and time; without them
    time precedes the objects, except for the first of two.
    """
    pieces = [piece for piece in clause.pieces if piece is not leaves_out]
    pronouns = [piece.german for piece in pieces if piece.is_pronoun]
    time = clause.time.german if clause.time and not leaves_out_time else ""
    frequency = clause.frequency.german if clause.frequency else ""
    negation = "" if clause.negation == "kein" else clause.negation
    objects = [piece for piece in pieces if piece.is_object and not piece.is_pronoun]
    others = [piece.german for piece in pieces if not piece.is_object]
    others += [clause.predicate.german] if clause.predicate else []
    if negation or frequency in ("schon", "nie"):
        early = [piece.german for piece in objects if piece.is_definite]
        late = [piece.german for piece in objects if not piece.is_definite]
        return [*pronouns, *early, time, frequency, negation, *late, *others]
    first = [piece.german for piece in objects[:1] if len(objects) == 2 and piece.is_definite]
    return [*pronouns, *first, time, frequency, *(piece.german for piece in objects[len(first) :]), *others]


def reflexive_of(clause: Clause) -> str:
    """The reflexive pronoun that agrees with the subject, if the verb has one."""
    subject = clause.subject
    return (
        german.reflexive_pronoun(subject.person, is_plural=subject.is_plural)
        if clause.frame.german.is_reflexive
        else ""
    )


def inverted_subject(clause: Clause) -> list[str]:
    """The subject after the finite verb: it precedes the reflexive as a pronoun (freut er sich) and
    follows it as a noun."""
    words = [clause.subject.case("nom"), reflexive_of(clause)]
    return words if clause.subject.is_pronoun else words[::-1]


def german_main(clause: Clause, *, front: str = "subject") -> str:
    """The main clause with the finite verb second, after the subject, the time or the place."""
    finite, closing = german_verbs(clause)
    if front == "time" and clause.time:
        return joined(
            [
                clause.time.german,
                finite,
                *inverted_subject(clause),
                *middle_field(clause, leaves_out_time=True),
                closing,
            ]
        )
    place = place_of(clause)
    if front == "place" and place:
        return joined(
            [place.german, finite, *inverted_subject(clause), *middle_field(clause, leaves_out=place), closing]
        )
    return joined([clause.subject.case("nom"), finite, reflexive_of(clause), *middle_field(clause), closing])


def place_of(clause: Clause) -> Piece | None:
    """The last piece if it is a place that can open the sentence."""
    last = clause.pieces[-1] if clause.pieces else None
    return last if last and last.asks == "wo" else None


def german_question(clause: Clause, word: str = "", *, asked: Piece | None = None) -> str:
    """The question with the verb first, or second after a question word that replaces the piece
    `asked`."""
    finite, closing = german_verbs(clause)
    return joined([word, finite, *inverted_subject(clause), *middle_field(clause, leaves_out=asked), closing])


def german_final(clause: Clause, *, opener: str, asked: Piece | None = None, has_gap: bool = False) -> str:
    """The clause with its verbs at the end after a conjunction or pronoun; `has_gap` if the opener
    is the subject."""
    finite, closing = german_verbs(clause)
    verbs = closing + finite if closing and closing == clause.frame.german.prefix else joined([closing, finite])
    subject = "" if has_gap else clause.subject.case("nom")
    return joined([opener, subject, reflexive_of(clause), *middle_field(clause, leaves_out=asked), verbs])


def german_infinitive(clause: Clause, *, opener: str = "") -> str:
    """The clause without subject that ends in zu and an infinitive."""
    return joined([opener, reflexive_of(clause), *middle_field(clause), german.zu_infinitive(clause.frame.german)])


def german_command(clause: Clause, *, is_polite: bool) -> str:
    """The command to du or, politely, to Sie."""
    verb = clause.frame.german
    lead = f"{verb.infinitive} Sie" if is_polite else german.imperative_form(verb)
    please = "" if clause.negation else "bitte"
    return joined([lead, reflexive_of(clause), please, *middle_field(clause), verb.prefix])


def english_verbs(clause: Clause, *, is_question: bool) -> tuple[str, str]:
    """The auxiliary, with not after it in a negative statement, and the rest of the verb group."""
    verb, subject = clause.frame.english, clause.subject
    needs_auxiliary = is_question or bool(clause.negation)
    if clause.modal is not None:
        tense = "past" if clause.german_tense == "preterite" else "present"
        return english.modal_forms(
            clause.modal.english,
            verb.base,
            tense,
            subject.person,
            is_plural=subject.is_plural,
            needs_auxiliary=needs_auxiliary,
        )
    return english.finite_forms(
        verb, clause.english_tense, subject.person, is_plural=subject.is_plural, needs_auxiliary=needs_auxiliary
    )


def english_objects(clause: Clause, *, asked: Piece | None = None) -> list[str]:
    """What follows the verb: particle, bare objects, prepositional ones, predicate and place; of
    `asked` the preposition stays."""
    pieces = [piece for piece in clause.pieces if piece is not asked]
    bare = [piece for piece in pieces if piece.is_object and not piece.english_preposition]
    others = [piece.english for piece in pieces if piece not in bare]
    stranded = asked.english_preposition if asked else ""
    verb = clause.frame.english
    has_pronoun = any(piece.is_pronoun for piece in bare)
    objects = [piece.english for piece in bare]
    particle = [*objects, verb.particle] if has_pronoun else [verb.particle, *objects]
    predicate = clause.predicate.english if clause.predicate else ""
    return [verb.tail, *particle, stranded, predicate, *others]


def english_main(
    clause: Clause, *, is_time_first: bool = False, has_gap: bool = False, opener: str = "", asked: Piece | None = None
) -> str:
    """The statement; it also serves subordinate clauses (with an opener) and relative clauses (with
    a gap or a piece asked)."""
    auxiliary, rest = english_verbs(clause, is_question=False)
    verbs = negated_auxiliary(auxiliary, has_not=bool(clause.negation))
    subject = "" if has_gap else clause.subject.english
    time = clause.time.english if clause.time else ""
    frequency = clause.frequency.english if clause.frequency else ""
    yet = "yet" if clause.negation == "noch nicht" else ""
    return joined(
        [
            opener,
            time if is_time_first else "",
            subject,
            verbs,
            frequency,
            rest,
            *english_objects(clause, asked=asked),
            "" if is_time_first else time,
            yet,
        ]
    )


def negated_auxiliary(auxiliary: str, *, has_not: bool) -> str:
    """The auxiliary with not where it is wanted: cannot, does not."""
    if not has_not:
        return auxiliary
    return "cannot" if auxiliary == "can" else f"{auxiliary} not"


def english_question(clause: Clause, word: str = "", *, asked: Piece | None = None) -> str:
    """The question with the auxiliary before the subject."""
    auxiliary, rest = english_verbs(clause, is_question=True)
    time = clause.time.english if clause.time else ""
    frequency = clause.frequency.english if clause.frequency else ""
    negation = "not" if clause.negation else ""
    return joined(
        [
            word,
            auxiliary,
            clause.subject.english,
            negation,
            frequency,
            rest,
            *english_objects(clause, asked=asked),
            time,
        ]
    )


def english_infinitive(clause: Clause, *, opener: str = "to") -> str:
    """The clause without subject after to."""
    time = clause.time.english if clause.time else ""
    return joined([opener, clause.frame.english.base, *english_objects(clause), time])


def english_gerund(clause: Clause, *, opener: str) -> str:
    """The clause without subject as an -ing form: without calling the doctor."""
    time = clause.time.english if clause.time else ""
    return joined([opener, english.ing_form(clause.frame.english.base), *english_objects(clause), time])


def english_command(clause: Clause) -> str:
    """The command, with please unless it is negative."""
    lead = "do not" if clause.negation else "please"
    return english_infinitive(clause, opener=lead)
