"""When things happen in the built-in corpus: expressions of time, and the tenses of both languages
that go with them."""

from dataclasses import dataclass
from random import Random

from anydepth.demo.grammar.clauses import Adverbial
from anydepth.demo.grammar.numbers import english_clock, english_number, german_clock, german_number
from anydepth.demo.grammar.phrases import chance, pick
from anydepth.demo.grammar.verbs import Frame, Modal, modals

DAYS = (
    ("Montag", "Monday"),
    ("Dienstag", "Tuesday"),
    ("Mittwoch", "Wednesday"),
    ("Donnerstag", "Thursday"),
    ("Freitag", "Friday"),
    ("Samstag", "Saturday"),
    ("Sonntag", "Sunday"),
)
PAST_TIMES = (
    ("gestern", "yesterday"),
    ("gestern Abend", "yesterday evening"),
    ("gestern Morgen", "yesterday morning"),
    ("heute Morgen", "this morning"),
    ("letzte Woche", "last week"),
    ("letzten Monat", "last month"),
)
FUTURE_TIMES = (
    ("morgen", "tomorrow"),
    ("morgen früh", "tomorrow morning"),
    ("morgen Abend", "tomorrow evening"),
    ("heute Abend", "this evening"),
    ("nächste Woche", "next week"),
    ("nächsten Monat", "next month"),
)
PRESENT_TIMES = (("jetzt", "now"), ("gerade", "right now"), ("heute", "today"), ("im Moment", "at the moment"))
HABITS = (("jeden Tag", "every day"), ("jeden Morgen", "every morning"), ("jeden Abend", "every evening"))
FREQUENCIES = (("oft", "often"), ("immer", "always"), ("manchmal", "sometimes"), ("nie", "never"), ("selten", "rarely"))
DAYS_BEFORE_A_CLOCK = {
    "past": (("gestern", "yesterday"), ("heute Morgen", "this morning")),
    "future": (("morgen", "tomorrow"), ("heute Abend", "this evening")),
    "habit": HABITS,
}
SPHERES = {
    "d": (
        ("past", 0.36),
        ("now", 0.16),
        ("habit", 0.12),
        ("future", 0.14),
        ("modal", 0.14),
        ("past modal", 0.05),
        ("done", 0.03),
    ),
    "e": (("past", 0.6), ("habit", 0.2), ("future", 0.12), ("done", 0.08)),
    "s": (("now", 0.65), ("past", 0.35)),
}


@dataclass(frozen=True)
class Timing:
    """The tenses of a clause in both languages, its modal and its adverbials."""

    german_tense: str
    english_tense: str
    modal: Modal | None = None
    time: Adverbial | None = None
    frequency: Adverbial | None = None


def clock_time(random: Random, *, first_hour: int = 1, hours: int = 12) -> Adverbial:
    """A clock time in steps of five minutes: um halb drei, at half past two."""
    hour, minute = first_hour + int(random.random() * hours), 5 * int(random.random() * 12)
    return Adverbial(f"um {german_clock(hour, minute)}", f"at {english_clock(hour, minute)}")


def distance_in_time(random: Random, sphere: str) -> Adverbial:
    """So many days, weeks or months from now: vor drei Tagen, three days ago."""
    german, english = pick(random, (("Tagen", "days"), ("Wochen", "weeks"), ("Monaten", "months")))
    number = 2 + int(random.random() * 29)
    number += number % 10 == 1
    count = english_number(number)
    if sphere == "past":
        return Adverbial(f"vor {german_number(number)} {german}", f"{count} {english} ago")
    return Adverbial(f"in {german_number(number)} {german}", f"in {count} {english}")


def choose_time(random: Random, sphere: str, *, frame: Frame) -> Adverbial:
    """An expression of time for past, now, habit or future; it alone tells the last three apart in
    German.

    Weeks and months away are for some frames only: one buys a car next month, but takes off a hat
    today.
    """
    if sphere == "now":
        return Adverbial(*pick(random, PRESENT_TIMES))
    roll = random.random() if frame.has_hour else 0.34 + 0.66 * random.random()
    if roll < 0.22:
        return clock_time(random) if sphere != "habit" else with_clock(random, sphere)
    if roll < 0.34:
        return with_clock(random, sphere)
    day, english_day = pick(random, DAYS)
    if sphere == "habit":
        return Adverbial(*pick(random, HABITS)) if roll < 0.7 else Adverbial(f"jeden {day}", f"every {english_day}")
    if roll < 0.5:
        return Adverbial(f"am {day}", f"on {english_day}")
    if roll < 0.68 and frame.is_remote:
        return distance_in_time(random, sphere)
    times = PAST_TIMES if sphere == "past" else FUTURE_TIMES
    return Adverbial(*pick(random, times if frame.is_remote else times[:4]))


def with_clock(random: Random, sphere: str) -> Adverbial:
    """A day together with a clock time: morgen um halb drei, tomorrow at half past two."""
    german, english = pick(random, DAYS_BEFORE_A_CLOCK[sphere])
    is_part_of_day = german.endswith(("Morgen", "Abend"))
    clock = clock_time(random, first_hour=6, hours=5) if is_part_of_day else clock_time(random)
    return Adverbial(f"{german} {clock.german}", f"{english} {clock.english}")


def choose_sphere(random: Random, aspect: str) -> str:
    """past, now, habit, future, modal, past modal or done, as the aspect of the verb allows."""
    roll = random.random()
    for sphere, share in SPHERES[aspect]:
        roll -= share
        if roll < 0:
            return sphere
    return "past"


def choose_timing(random: Random, sphere: str, frame: Frame, *, has_preterite: bool = True) -> Timing:
    """Tenses, modal and adverbials for a sphere; du and ihr have no preterite here, states prefer
    it."""
    maybe, aspect = chance(random, 0.55), frame.aspect
    if sphere == "past":
        wants_preterite = has_preterite and (aspect == "s" or chance(random, 0.25))
        time = choose_time(random, "past", frame=frame) if maybe and aspect != "s" else None
        return Timing("preterite" if wants_preterite else "perfect", "past", time=time)
    if sphere == "done":
        return Timing("perfect", "perfect", frequency=Adverbial("schon", "already"))
    if sphere == "now":
        goes_on = aspect == "d"
        time = choose_time(random, "now", frame=frame) if maybe and goes_on else None
        return Timing("present", "progressive" if goes_on else "present", time=time)
    if sphere == "habit":
        if maybe:
            return Timing("present", "present", frequency=Adverbial(*pick(random, FREQUENCIES)))
        return Timing("present", "present", time=choose_time(random, "habit", frame=frame))
    time = choose_time(random, "past" if sphere == "past modal" else "future", frame=frame) if maybe else None
    if sphere == "future":
        if chance(random, 0.35):
            return Timing("present", "present", modals()["werden"], time=time)
        return Timing("present", "future", time=time or choose_time(random, "future", frame=frame))
    if sphere == "past modal":
        return Timing("preterite", "past", modals()[pick(random, ("können", "müssen", "wollen", "dürfen"))], time=time)
    assert sphere == "modal", sphere
    return Timing(
        "present",
        "present",
        modals()[pick(random, ("können", "müssen", "wollen", "dürfen", "sollen", "möchten"))],
        time=time,
    )
