"""The verbs of the built-in corpus with the subjects and complements that they take, and the modal
verbs."""

from dataclasses import dataclass
from functools import cache

from anydepth.demo.grammar.english import EnglishModal, EnglishVerb
from anydepth.demo.grammar.entries import table_lines
from anydepth.demo.grammar.german import GermanVerb, infinitive_form

# German: prefix|infinitive, then for strong verbs the stem of du/er (or -), preterite and
# participle; "sein"; "sich". English: base, then past and participle if irregular; |particle
# follows a pronoun object, /tail does not move. Class: d goes on for a while, e is over at once, s
# is a state. Then subject kinds and complements: case:kinds, case>preposition:kinds,
# preposition.case>preposition:kinds, or a manner of place (at, to, from, in_home, ...).
FRAMES = """
an|rufen - rief gerufen : call : d : person : acc:person
ab|holen : pick |up : d : person : acc:person
ab|holen : pick |up : d : person : acc:carry
ein|laden läd lud geladen : invite : d : person : acc:person
mit|bringen - brachte gebracht : bring brought brought |along : d : person : acc:gift+food
mit|nehmen nimm nahm genommen : take took taken |along : d : person : acc:carry
auf|machen : open : d : person : acc:opened
auf|machen : open : d : person : acc:part
auf|machen : open : d : person : acc:lock
zu|machen : close : d : person : acc:part
an|ziehen - zog gezogen : put put put |on : d : person : acc:worn
aus|ziehen - zog gezogen : take took taken |off : d : person : acc:worn
auf|räumen : tidy |up : d : person : acc:room
vor|bereiten : prepare : d : person : acc:event+trip
weg|werfen wirf warf geworfen : throw threw thrown |away : d : person : acc:message+food
zurück|geben gib gab gegeben : give gave given |back : d : person : acc:carry
an|machen : switch |on : d : person : acc:device
aus|machen : switch |off : d : person : acc:device
an|schauen : look : d : person : acc>at:hung+painted
vor|lesen lies las gelesen : read read read : d : person : dat>to:person acc:text
zu|hören : listen : d : person : dat>to:person
fern|sehen sieh sah gesehen : watch /television : d : person : -
ein|kaufen : go went gone /shopping : d : person : in_town
auf|stehen - stand gestanden sein : get got got /up : d : person : -
auf|wachen sein : wake woke woken /up : e : person+animal : -
ein|schlafen schläf schlief geschlafen sein : fall fell fallen /asleep : e : person+animal : place
an|kommen - kam gekommen sein : arrive : d : person+vehicle : city
ab|fahren fähr fuhr gefahren sein : leave left left : d : public : from
zurück|kommen - kam gekommen sein : come came come /back : d : person : from
um|ziehen - zog gezogen sein : move : d : person : to_city
statt|finden - fand gefunden : take took taken /place : d : event : place
an|fangen fäng fing gefangen : start : d : event : -
ab|sagen : cancel : d : person : acc:event
ab|schicken : send sent sent |off : d : person : acc:message
auf|schreiben - schrieb geschrieben : write wrote written |down : d : person : acc:noted
nach|denken - dachte gedacht : think thought thought : d : person : über.acc>about:idea
teil|nehmen nimm nahm genommen : take took taken /part : d : person : an.dat>in:event
ein|steigen - stieg gestiegen sein : get got got : d : person : in.acc>on:boarded
aus|steigen - stieg gestiegen sein : get got got : d : person : aus.dat>off:boarded
auf|hängen : hang hung hung |up : d : person : acc:hung
kaufen : buy bought bought : d : person : acc:worn+gift
kaufen : buy bought bought : d : person : acc:food
kaufen : buy bought bought : d : person : acc:furniture+drive+device+soft
verkaufen : sell sold sold : d : person : acc:drive+furniture+gift+device
lesen lies las gelesen : read read read : d : person : acc:text
schreiben - schrieb geschrieben : write wrote written : d : person : acc:mail+written
essen iss aß gegessen : eat ate eaten : d : person : acc:food
essen iss aß gegessen : eat ate eaten : d : person : acc:food
trinken - trank getrunken : drink drank drunk : d : person : acc:drink
trinken - trank getrunken : drink drank drunk : d : person : acc:drink
kochen : cook : d : person : acc:cooked
backen - backte gebacken : bake : d : person : acc:baked
sehen sieh sah gesehen : see saw seen : s : person : acc:person+animal
sehen sieh sah gesehen : see saw seen : s : person : acc:watched
suchen : look : d : person : acc>for:lost+person
suchen : look : d : person : acc>for:lost+building+money
finden - fand gefunden : find found found : e : person : acc:lost+money
finden - fand gefunden : find found found : e : person : acc:slip
machen : make made made : e : person : acc:slip
verlieren - verlor verloren : lose lost lost : e : person : acc:lost+money
vergessen vergiss vergaß vergessen : forget forgot forgotten : e : person : acc:noted+lost
reparieren : repair : d : person : acc:machine
reparieren : repair : d : person : acc:lock
waschen wäsch wusch gewaschen : wash : d : person : acc:washed+soft
waschen wäsch wusch gewaschen : wash : d : person : acc:worn
putzen : clean : d : person : acc:part+room
bezahlen : pay paid paid : d : person : acc>for:food+drink+trip
bestellen : order : d : person : acc:food
bestellen : order : d : person : acc:drink
brauchen : need : s : person : acc:needed+carry+money+furniture
haben - hatte gehabt : have had had : s : person : acc:animal+drive+idea+gift
kennen - kannte gekannt : know knew known : s : person : acc:person+noted+sung
lieben : love : s : person : acc:person+animal+sung
besuchen : visit : d : person : acc:person+sight
treffen triff traf getroffen : meet met met : d : person : acc:person
fragen : ask : d : person : acc:person
helfen hilf half geholfen : help : d : person : dat:person
danken : thank : d : person : dat:person
antworten : answer : d : person : dat:person
glauben : believe : s : person : dat:person
gehören : belong : s : carry+worn+drive+furniture : dat>to:person
geben gib gab gegeben : give gave given : d : person : dat>to:person acc:carry+money
zeigen : show showed shown : d : person : dat>to:person acc:gift+carry+text
schenken : give gave given : d : person : dat>to:person acc:gift
schicken : send sent sent : d : person : dat>to:person acc:message
bringen - brachte gebracht : bring brought brought : d : person : dat>to:person acc:carry+drink
erklären : explain : d : person : dat>to:person acc:idea
leihen - lieh geliehen : lend lent lent : d : person : dat>to:person acc:drive+money+carry
erzählen : tell told told : d : person : dat>to:person acc:told
warten : wait : d : person : auf.acc>for:person+public
denken - dachte gedacht : think thought thought : d : person : an.acc>of:person+trip
sprechen sprich sprach gesprochen : talk : d : person : mit.dat>to:person
sprechen sprich sprach gesprochen : talk : d : person : über.acc>about:idea+event+watched
lachen : laugh : d : person : über.acc>at:told+watched+idea
träumen : dream : d : person : von.dat>of:trip+person
freuen sich : look /forward : d : person : auf.acc>to:joy
erinnern sich : remember : s : person : an.acc:person+trip+event
interessieren sich : be was been /interested : s : person : für.acc>in:idea+text+watched
ärgern sich : be was been /annoyed : s : person : über.acc>about:slip+event
arbeiten : work : d : person : at_work
arbeiten : work : d : person : in_city
wohnen : live : s : person : in_city
leben : live : s : person : in_city
wohnen : live : s : person : in_home
schlafen schläf schlief geschlafen : sleep slept slept : d : person+animal : place
spielen : play : d : person+animal : place
spielen : play : d : person : acc:played
tanzen : dance : d : person : place
singen - sang gesungen : sing sang sung : d : person : acc:sung
lachen : laugh : d : person : -
weinen : cry : d : person : place
gehen - ging gegangen sein : go went gone : d : person : to
fahren fähr fuhr gefahren sein : travel : d : person : to_city
zurück|fahren fähr fuhr gefahren sein : travel /back : d : person : to_city
reisen sein : travel : d : person : to_city
fliegen - flog geflogen sein : fly flew flown : d : person : to_city
laufen läuf lief gelaufen sein : run ran run : d : person+animal : to
bleiben - blieb geblieben sein : stay : d : person : stay
sitzen - saß gesessen : sit sat sat : d : person+animal : seat
liegen - lag gelegen : lie lay lain : s : carry+worn+message : on_top
stehen - stand gestanden : stand stood stood : s : stood : on_top
stehen - stand gestanden : stand stood stood : d : person : queue
hängen - hing gehangen : hang hung hung : s : hung : on_wall
legen : put put put : d : person : acc:carry onto_top
stellen : put put put : d : person : acc:stood onto_top
studieren : study : d : person : in_city
lernen : study : d : person : für.acc>for:exam
lösen : solve : d : person : acc:task
verstehen - verstand verstanden : understand understood understood : s : person : acc:idea+person
malen : paint : d : person : acc:painted
malen : paint : d : person : acc:building+animal
besichtigen : visit : d : person : acc:castle+sight
besichtigen : visit : d : person : acc:castle
öffnen : open : d : person : acc:opened
schließen - schloss geschlossen : close : d : person : acc:part
tragen träg trug getragen : carry : d : person : acc:carry to_room
gewinnen - gewann gewonnen : win won won : e : person : acc:money+gift
verpassen : miss : e : person : acc:public+event
mögen - mochte gemocht : like : s : person : acc:person+animal+food+drink
beobachten : watch : d : person : acc:animal+person
füttern : feed fed fed : d : person : acc:animal
planen : plan : d : person : acc:trip+project
ab|heben - hob gehoben : withdraw withdrew withdrawn : d : person : acc:money at_bank
beginnen - begann begonnen : begin began begun : d : event+project : -
"""

# What can lie weeks or months away.
REMOTE = (
    "einladen",
    "vorbereiten",
    "ankommen",
    "zurückkommen",
    "umziehen",
    "stattfinden",
    "anfangen",
    "absagen",
    "teilnehmen",
    "kaufen",
    "verkaufen",
    "schreiben",
    "verlieren",
    "reparieren",
    "besuchen",
    "treffen",
    "schenken",
    "schicken",
    "leihen",
    "fahren",
    "fliegen",
    "malen",
    "besichtigen",
    "gewinnen",
    "planen",
    "beginnen",
    "arbeiten",
    "studieren",
    "verpassen",
)

# What has no hour of the day.
LASTING = (
    "umziehen",
    "studieren",
    "leben",
    "planen",
    "leihen",
    "gewinnen",
    "bleiben",
    "freuen",
    "träumen",
    "interessieren",
)
# Going somewhere, what one goes there for, and turns of events, after which one does something
# else.
GOING = ("gehen", "fahren", "reisen", "zurückfahren", "fliegen", "laufen", "zurückkommen", "aufstehen")
PURPOSES = (
    "besuchen",
    "treffen",
    "kaufen",
    "besichtigen",
    "abholen",
    "suchen",
    "helfen",
    "danken",
    "sprechen",
    "zurückgeben",
    "fragen",
    "teilnehmen",
    "füttern",
)
TURNS = (
    "ankommen",
    "zurückkommen",
    "aufwachen",
    "finden",
    "verlieren",
    "vergessen",
    "verpassen",
    "gewinnen",
    "einschlafen",
    "aufstehen",
)

MODAL_TABLE: dict[str, tuple[str, EnglishModal]] = {
    "können": ("konnte", EnglishModal("can", "could")),
    "müssen": ("musste", EnglishModal(verb=EnglishVerb("have", "had", "had"), link="to")),
    "wollen": ("wollte", EnglishModal(verb=EnglishVerb("want"), link="to")),
    "dürfen": ("durfte", EnglishModal(verb=EnglishVerb("be"), link="allowed to")),
    "sollen": ("", EnglishModal("should")),
    "möchten": ("", EnglishModal("would", link="like to")),
    "werden": ("", EnglishModal("will")),
}


@dataclass(frozen=True)
class Complement:
    """What a verb asks for: a German case (after a preposition or not), an English preposition or
    none, and kinds of noun.

    A `place` names a manner of place instead, and the rest is empty.
    """

    case: str = ""
    preposition: str = ""
    english_preposition: str = ""
    kinds: str = ""
    place: str = ""

    @property
    def is_plain_object(self) -> bool:
        """Whether it is an accusative without a preposition in either language."""
        return self.case == "acc" and not self.preposition and not self.english_preposition


@dataclass(frozen=True, eq=False)
class Frame:
    """A verb in both languages with its class (d, e, s), its subjects and its complements in German
    order."""

    german: GermanVerb
    english: EnglishVerb
    aspect: str
    subjects: str
    complements: tuple[Complement, ...]

    @property
    def is_remote(self) -> bool:
        """Whether the event can lie weeks or months away."""
        return infinitive_form(self.german) in REMOTE

    @property
    def has_hour(self) -> bool:
        """Whether a clock time can say when it happens."""
        return infinitive_form(self.german) not in LASTING


@dataclass(frozen=True)
class Modal:
    """A modal verb in both languages; without a preterite it has a present only."""

    german: GermanVerb
    english: EnglishModal


def parse_german(words: list[str]) -> GermanVerb:
    """The verb of the first column of FRAMES."""
    auxiliary = "sein" if "sein" in words[1:] else "haben"
    is_reflexive = "sich" in words
    parts = [words[0]] + [word for word in words[1:] if word not in ("sein", "sich")]
    prefix, _, infinitive = parts[0].rpartition("|")
    if len(parts) == 1:
        return GermanVerb(infinitive, prefix, auxiliary=auxiliary, is_reflexive=is_reflexive)
    return GermanVerb(infinitive, prefix, parts[1].strip("-"), parts[2], parts[3], auxiliary, is_reflexive)


def parse_english(words: list[str]) -> EnglishVerb:
    """The verb of the second column of FRAMES."""
    particle = "".join(word[1:] for word in words if word.startswith("|"))
    tail = "".join(word[1:].replace("_", " ") for word in words if word.startswith("/"))
    parts = [word for word in words if word[0] not in "|/"]
    past, participle = parts[1:3] if len(parts) == 3 else ("", "")
    return EnglishVerb(parts[0], past, participle, particle, tail)


def parse_complement(word: str) -> Complement:
    """The complement that a word of the last column of FRAMES describes."""
    if ":" not in word:
        return Complement(place=word)
    relation, kinds = word.split(":")
    german, _, english = relation.partition(">")
    preposition, _, case = german.rpartition(".")
    return Complement(case, preposition, english, kinds)


@cache
def frames() -> tuple[Frame, ...]:
    """All verb frames."""
    found = []
    for line in table_lines(FRAMES):
        german, english, aspect, subjects, complements = line.split(" : ")
        found.append(
            Frame(
                parse_german(german.split()),
                parse_english(english.split()),
                aspect,
                subjects,
                tuple(parse_complement(word) for word in complements.split() if word != "-"),
            )
        )
    return tuple(found)


@cache
def frames_of(aspects: str) -> tuple[Frame, ...]:
    """The frames that have one of the aspects."""
    return tuple(frame for frame in frames() if frame.aspect in aspects)


@cache
def frames_for(subject: str, aspects: str) -> tuple[Frame, ...]:
    """The frames that take a subject of this kind and have one of the aspects."""
    return tuple(frame for frame in frames() if subject in frame.subjects.split("+") and frame.aspect in aspects)


@cache
def frames_among(infinitives: tuple[str, ...]) -> tuple[Frame, ...]:
    """The frames of these German verbs that take a person as subject."""
    return tuple(frame for frame in frames_for("person", "de") if infinitive_form(frame.german) in infinitives)


@cache
def frames_with_object(aspects: str) -> tuple[Frame, ...]:
    """The frames with a person as subject, one of the aspects, and a last complement that is a noun
    phrase."""
    return tuple(frame for frame in frames_for("person", aspects) if frame.complements and frame.complements[-1].case)


@cache
def frames_about(kinds: str) -> tuple[Frame, ...]:
    """The frames whose last complement can be any noun of the kinds, which are joined by "+"."""
    wanted = set(kinds.split("+"))
    return tuple(frame for frame in frames_with_object("ds") if wanted <= set(frame.complements[-1].kinds.split("+")))


@cache
def frames_for_things() -> tuple[Frame, ...]:
    """The frames whose subject is no person."""
    return tuple(frame for frame in frames() if "person" not in frame.subjects.split("+"))


@cache
def modals() -> dict[str, Modal]:
    """The modal verbs by their German infinitive."""
    return {word: Modal(GermanVerb(word, preterite=past), english) for word, (past, english) in MODAL_TABLE.items()}


COPULA = Frame(
    GermanVerb("sein", preterite="war", participle="gewesen", auxiliary="sein"),
    EnglishVerb("be", "was", "been"),
    "s",
    "person",
    (),
)
