"""What a server answers instead of a translation."""

from anydepth.errors import AnydepthError


class Refusal(AnydepthError):  # noqa: N818
    """A request that is not met: the status of the answer, its sentence, and when to try again."""

    def __init__(self, status: int, sentence: str, *, retry_after: int | None = None) -> None:
        super().__init__(sentence)
        self.status, self.retry_after = status, retry_after


def missing(name: str) -> Refusal:
    """The refusal of a request without one of its parameters, in LibreTranslate's words."""
    return Refusal(400, f"Invalid request: missing {name} parameter")


def too_much(what: str, size: int, limit: int) -> Refusal:
    """The refusal of a request that is too large, in LibreTranslate's words."""
    return Refusal(400, f"Invalid request: request ({size}) exceeds {what} limit ({limit})")


def slow_down(sentence: str, seconds: int) -> Refusal:
    """The refusal of one client that asks too much, in LibreTranslate's words."""
    return Refusal(429, f"Slowdown: {sentence}", retry_after=seconds)


def overloaded(sentence: str, seconds: int = 1) -> Refusal:
    """The refusal of whoever comes while the server has more to do than it can."""
    return Refusal(503, sentence, retry_after=seconds)
