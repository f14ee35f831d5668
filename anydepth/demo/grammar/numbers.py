"""Number words, years and clock times of the built-in corpus, in German and in English."""

GERMAN_UNITS = (
    "null",
    "ein",
    "zwei",
    "drei",
    "vier",
    "fünf",
    "sechs",
    "sieben",
    "acht",
    "neun",
    "zehn",
    "elf",
    "zwölf",
    "dreizehn",
    "vierzehn",
    "fünfzehn",
    "sechzehn",
    "siebzehn",
    "achtzehn",
    "neunzehn",
)
GERMAN_TENS = ("", "", "zwanzig", "dreißig", "vierzig", "fünfzig", "sechzig", "siebzig", "achtzig", "neunzig")
ENGLISH_UNITS = (
    "zero",
    "one",
    "two",
    "three",
    "four",
    "five",
    "six",
    "seven",
    "eight",
    "nine",
    "ten",
    "eleven",
    "twelve",
    "thirteen",
    "fourteen",
    "fifteen",
    "sixteen",
    "seventeen",
    "eighteen",
    "nineteen",
)
ENGLISH_TENS = ("", "", "twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")
CLOCK_TIMES = tuple((hour, minute) for hour in range(1, 13) for minute in range(0, 60, 5))


def german_number(number: int) -> str:
    """The German word for 1..999 as it is counted: eins, siebenundvierzig, einhunderteins."""
    assert 1 <= number <= 999, number
    hundreds, rest = divmod(number, 100)
    head = GERMAN_UNITS[hundreds] + "hundert" if hundreds else ""
    if rest == 0:
        return head
    if rest == 1:
        return head + "eins"
    if rest < 20:
        return head + GERMAN_UNITS[rest]
    tens, units = divmod(rest, 10)
    return head + (GERMAN_UNITS[units] + "und" if units else "") + GERMAN_TENS[tens]


def english_number(number: int) -> str:
    """The English words for 1..999: one, forty-seven, one hundred and one."""
    assert 1 <= number <= 999, number
    hundreds, rest = divmod(number, 100)
    head = ENGLISH_UNITS[hundreds] + " hundred" if hundreds else ""
    if rest == 0:
        return head
    tens, units = divmod(rest, 10)
    tail = ENGLISH_UNITS[rest] if rest < 20 else "-".join([ENGLISH_TENS[tens]] + [ENGLISH_UNITS[units]] * bool(units))
    return f"{head} and {tail}" if head else tail


def german_year(year: int) -> str:
    """The German words for a year 1910..1999: neunzehnhundertsiebenundvierzig."""
    assert 1910 <= year <= 1999, year
    return "neunzehnhundert" + german_number(year - 1900)


def english_year(year: int) -> str:
    """The English words for a year 1910..1999: nineteen forty-seven."""
    assert 1910 <= year <= 1999, year
    return "nineteen " + english_number(year - 1900)


def german_clock(hour: int, minute: int) -> str:
    """The spoken German time for hour 1..12 and a minute divisible by 5; halb and Viertel vor name
    the next hour."""
    assert (hour, minute) in CLOCK_TIMES, (hour, minute)
    if minute == 0:
        return GERMAN_UNITS[hour] + " Uhr"
    this, following = german_number(hour), german_number(hour % 12 + 1)
    if minute in (25, 30, 35):
        return {25: "fünf vor ", 30: "", 35: "fünf nach "}[minute] + f"halb {following}"
    distance = min(minute, 60 - minute)
    amount = "Viertel" if distance == 15 else german_number(distance)
    return f"{amount} nach {this}" if minute < 30 else f"{amount} vor {following}"


def english_clock(hour: int, minute: int) -> str:
    """The spoken English time for hour 1..12 and a minute divisible by 5; after half past, it
    counts down to the next hour."""
    assert (hour, minute) in CLOCK_TIMES, (hour, minute)
    this, following = english_number(hour), english_number(hour % 12 + 1)
    if minute == 0:
        return f"{this} o'clock"
    if minute == 30:
        return f"half past {this}"
    distance = min(minute, 60 - minute)
    amount = "a quarter" if distance == 15 else english_number(distance)
    return f"{amount} past {this}" if minute < 30 else f"{amount} to {following}"
