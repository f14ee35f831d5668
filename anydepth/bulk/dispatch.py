"""The pieces of a job on their way to workers and back: each is given out, tried again where it fails,
and kept when it is done."""

import time
from collections import Counter, deque
from collections.abc import Callable, Iterator
from typing import Generic

from anydepth.bulk.crew import Crew, Made, Work, WorkOutcome
from anydepth.messages.progress import ProgressBar
from anydepth.messages.say import Say

PAUSE = 1.0  # seconds between two looks at what others hold
REMINDER = 60.0  # seconds between two words about something that is waited for
RETRIES = 3  # times that a piece is tried before it is reported as failed


class CrewProgress(ProgressBar):
    """How many sentences are done, by how many workers, and what failed."""

    def __init__(self, total: int, what: str, dispatch: "Dispatch[Work, Made]", say: Say) -> None:
        super().__init__(total, what, say)
        self.dispatch = dispatch

    @property
    def text(self) -> str:
        """The state of things in one line."""
        return f"{super().text}  {self.dispatch.crew.workers} workers  {self.dispatch.failures} failures"


class Dispatch(Generic[Work, Made]):
    """Gives `pieces`, of `total` sentences in all, to a crew. `keep` gets each with what was made of
    it; those that were tried `retries` times in vain are in `failed`."""

    def __init__(
        self,
        pieces: Iterator[Work],
        crew: Crew[Work, Made],
        keep: Callable[[Work, Made], None],
        *,
        total: int,
        what: str = "sentences",
        retries: int = RETRIES,
        say: Say,
    ) -> None:
        self.fresh, self.crew, self.keep, self.retries, self.say = pieces, crew, keep, retries, say
        self.again: deque[Work] = deque()
        self.given, self.has_begun = 0, False
        self.last_seen = time.monotonic()  # when there was a worker, or it was said that there is none
        self.tries: Counter[str] = Counter()
        self.failed: dict[str, str] = {}  # reasons, by place
        self.progress = CrewProgress(total, what, self, say)

    @property
    def failures(self) -> int:
        """How much has failed for good."""
        return len(self.failed)

    @property
    def is_waiting(self) -> bool:
        """Whether a piece is with somebody, who may finish it."""
        return self.given > 0

    def go(self) -> None:
        """Until every piece is done or has failed too often."""
        with self.progress:
            while True:
                while self.crew.idle and (piece := self.next_piece()) is not None:
                    self.give(piece)
                if not self.is_waiting and (piece := self.next_piece()) is not None:
                    self.again.appendleft(piece)  # there is work, and nobody yet to do it
                elif not self.is_waiting:
                    return
                self.listen()

    def give(self, piece: Work) -> None:
        """Hands a piece to a worker. The first shows that models are loaded: from then on time counts."""
        if not self.has_begun:
            self.has_begun, self.progress.started = True, time.monotonic()
        self.crew.give(piece)
        self.given += 1

    def next_piece(self) -> Work | None:
        """A piece that nobody is at work on."""
        return self.again.popleft() if self.again else next(self.fresh, None)

    def listen(self) -> None:
        """Waits for what comes of pieces, a moment at most."""
        for outcome in self.crew.wait(PAUSE):
            self.given -= 1
            self.heard(outcome)
        self.look_for_workers()

    def look_for_workers(self) -> None:
        """Says every minute that no worker is there, such as on a cluster without room."""
        now = time.monotonic()
        if self.crew.workers:
            self.last_seen = now
        elif now - self.last_seen >= REMINDER:
            self.last_seen = now
            self.say("no worker is ready; waiting for one to start, or for room where it can")

    def heard(self, outcome: WorkOutcome[Work, Made]) -> None:
        """Notes what came of a piece."""
        piece = outcome.piece
        if outcome.made is not None:
            self.done(piece, outcome.made)
            return
        self.tries[piece.place] += 1
        if self.tries[piece.place] < self.retries:
            self.say(f"{piece.place}: {outcome.reason}; trying again")
            self.again.append(piece)
        else:
            self.failed[piece.place] = outcome.reason
            self.say(f"{piece.place} FAILED: {outcome.reason}; the others continue")

    def done(self, piece: Work, made: Made) -> None:
        """Keeps what was made of a piece."""
        self.keep(piece, made)
        self.progress.add(piece.records)
