"""How many of the seeds a rival is trained with."""

from anydepth.errors import UsageError


def repeat_wish(text: str, seeds: int) -> tuple[str, int]:
    """The run that RUN or RUN:K names, and with how many of the seeds it is trained."""
    name, colon, count = text.partition(":")
    if colon and not (count.isascii() and count.isdigit() and int(count) >= 1):
        raise UsageError(f"--repeat {text}: {count!r} is no number of seeds; write it as in {name}:3")
    return name, int(count) if colon else seeds
