"""The work of a request: its texts cut into sentences, searched together with those of others, and
put together again."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Literal, TypeVar

from anydepth.inference.translator import Translation
from anydepth.server.budgets import SearchPlan
from anydepth.server.depths import SearchedSentence, TextDepth, text_depth
from anydepth.server.markup import cut_markup
from anydepth.server.pairs import ServedPair
from anydepth.server.passages import CutText, cut_plain_text
from anydepth.server.refusals import overloaded, slow_down

TextFormat = Literal["text", "html"]
SHORT = 1_000  # characters that are cut at once; more are cut in a thread, so that others are not held up
UNWATCHED = 0.1  # seconds of a request before it pays to watch whether its client is still there
Done = TypeVar("Done")


@dataclass(frozen=True)
class TranslationJob:
    """The texts of a request in one language pair, and how to search them."""

    pair: ServedPair
    texts: Sequence[str]
    format: TextFormat
    plan: SearchPlan
    owner: str
    most_waiting: int
    wants_depth: bool = False


@dataclass(frozen=True)
class TranslatedText:
    """A text in the other language, its alternatives, and how deep its words went."""

    text: str
    alternatives: list[str]
    sentences: list[Translation]
    depth: TextDepth | None = None


async def translate_job(job: TranslationJob) -> list[TranslatedText]:
    """The translated texts, in their order; cancelling the task takes waiting sentences out of the
    line."""
    started = time.perf_counter()
    cuts = await off_the_loop(lambda: cut_texts(job), size=sum(map(len, job.texts)))
    flat = [(sentence, ids) for _, sentences in cuts for sentence, ids in sentences]
    found = iter(await search_sentences(job, flat))
    searched = [[next(found) for _ in sentences] for _, sentences in cuts]
    milliseconds = 1000 * (time.perf_counter() - started)
    translated = [rebuilt_text(job, cut, own) for (cut, _), own in zip(cuts, searched, strict=True)]
    if not job.wants_depth:
        return translated
    return await asyncio.to_thread(with_depths, job, translated, searched, milliseconds)


def cut_texts(job: TranslationJob) -> list[tuple[CutText, list[tuple[str, list[int]]]]]:
    """Each text with its sentences and their tokens; a sentence that the model has no room for is
    cut."""
    translator, cut = job.pair.translator, cut_markup if job.format == "html" else cut_plain_text
    encoded: dict[str, list[int]] = {}

    def fits(sentence: str) -> bool:
        encoded[sentence] = translator.source_tokenizer.encode(sentence)
        return len(encoded[sentence]) <= translator.model.config.max_length

    def ids_of(sentence: str) -> list[int]:
        return encoded[sentence] if sentence in encoded else translator.source_tokenizer.encode(sentence)

    cuts = [cut(text, job.pair.source, fits) for text in job.texts]
    return [(each, [(sentence, ids_of(sentence)) for sentence in each.sentences]) for each in cuts]


async def search_sentences(job: TranslationJob, flat: Sequence[tuple[str, list[int]]]) -> list[SearchedSentence]:
    """What search found for each sentence; a line that is full is refused at once."""
    desk, plan = job.pair.desk, job.plan
    limit = job.pair.translator.model.config.max_length
    check_room(job, len(flat))
    asked = [ids[:limit] for _, ids in flat if ids]
    futures = [desk.search(ids, plan.policy, plan.settings, owner=job.owner) for ids in asked]
    hypotheses = iter([await futures[0]] if len(futures) == 1 else await asyncio.gather(*futures))
    searched = []
    for sentence, ids in flat:
        own = next(hypotheses) if ids else []
        translation = job.pair.translator.translation(own, source_length=len(ids)) if own else Translation()
        searched.append(SearchedSentence(sentence, ids[:limit], own, translation))
    return searched


def check_room(job: TranslationJob, sentences: int) -> None:
    """Refuses sentences that there is no room for in the line. An owner has half of it, so that
    nobody fills it alone."""
    desk = job.pair.desk
    if desk.waiting_of(job.owner) + sentences > max(1, job.most_waiting // 2):
        raise slow_down("too many of your sentences are waiting", 1)
    if desk.waiting + sentences > job.most_waiting:
        raise overloaded("the server has more to translate than it can; try again soon")


def rebuilt_text(job: TranslationJob, cut: CutText, searched: Sequence[SearchedSentence]) -> TranslatedText:
    """A text of the best translations, and one for each alternative that differs: the k-th is made
    of the k-th of each sentence, or of its last."""
    ranked = [[each.line for each in one.translation.alternatives] or [one.translation.line] for one in searched]
    texts = [cut.rebuilt([lines[min(k, len(lines) - 1)] for lines in ranked]) for k in range(job.plan.settings.best)]
    alternatives = [text for text in dict.fromkeys(texts[1:]) if text != texts[0]]
    return TranslatedText(texts[0], alternatives, [each.translation for each in searched])


def with_depths(
    job: TranslationJob,
    translated: Sequence[TranslatedText],
    searched: Sequence[Sequence[SearchedSentence]],
    milliseconds: float,
) -> list[TranslatedText]:
    """The texts with the depths of their words."""
    return [
        TranslatedText(
            text.text,
            text.alternatives,
            text.sentences,
            text_depth(job.pair.translator, job.plan, own, milliseconds=milliseconds),
        )
        for text, own in zip(translated, searched, strict=True)
    ]


async def off_the_loop(work: Callable[[], Done], *, size: int) -> Done:
    """What `work` gives; done in a thread where `size`, in characters, says that it takes long."""
    return work() if size <= SHORT else await asyncio.to_thread(work)


class Attendance:
    """Ends the work of the task that makes it: once the client `has_left`, or after `seconds`."""

    def __init__(self, has_left: Callable[[], Awaitable[None]], seconds: float) -> None:
        task, loop = asyncio.current_task(), asyncio.get_running_loop()
        assert task is not None
        self.task, self.has_left = task, has_left
        self.is_late = self.is_alone = False
        self.watching: asyncio.Task[None] | None = None
        self.loop, self.deadline = loop, loop.time() + seconds
        first, work = (UNWATCHED, self._begin) if seconds > UNWATCHED else (seconds, self._give_up)
        self.timer = loop.call_later(first, work)  # most requests end before it

    def _give_up(self) -> None:
        if not self.is_alone:
            self.is_late = True
            self.task.cancel()

    def _begin(self) -> None:
        self.timer = self.loop.call_at(self.deadline, self._give_up)
        self.watching = asyncio.ensure_future(self._watch())

    async def _watch(self) -> None:
        await self.has_left()
        if not self.is_late:
            self.is_alone = True
            self.task.cancel()

    def has_ended_it(self) -> bool:
        """Whether the task was cancelled from here, and by nobody else; it may then go on."""
        return (self.is_late or self.is_alone) and self.task.uncancel() == 0

    def end(self) -> None:
        """Leaves the task alone."""
        self.timer.cancel()
        if self.watching is not None:
            self.watching.cancel()


async def unless_left(work: Awaitable[Done], has_left: Callable[[], Awaitable[None]], *, seconds: float) -> Done | None:
    """What `work` gives, or None once the client `has_left`; after `seconds` the request is given
    up. Work that nobody waits for is cancelled."""
    attendance = Attendance(has_left, seconds)
    try:
        return await work
    except asyncio.CancelledError:
        if not attendance.has_ended_it():
            raise
    finally:
        attendance.end()
    if attendance.is_late:
        raise overloaded(f"the translation took longer than {seconds:g} seconds; send less text")
    return None
