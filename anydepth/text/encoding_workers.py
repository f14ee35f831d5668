"""Encoding on several cores: processes that each take the next block, and results in the order of
the text, so that their number does not show."""

import queue
import subprocess
import sys
from collections import deque
from collections.abc import Generator, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from itertools import chain, islice
from types import TracebackType

from anydepth.errors import AnydepthError
from anydepth.text.block_encoding import EncodedBlock
from anydepth.text.corpus import PairBlock
from anydepth.text.encoding_process import EncodingRecipe, block_parts, encoded_from_parts, receive, send

# It looks for modules where this process does, and nowhere else: not in the folder that it is started in.
PROGRAM = "import sys; sys.path[:] = sys.argv[1:]; from anydepth.text.encoding_process import main; main()"
FEW_BLOCKS = 4  # are encoded sooner here than processes start
BLOCKS_AHEAD = 2  # that wait for each process, so that none waits for a block


def encode_blocks(
    blocks: Iterator[PairBlock], recipe: EncodingRecipe, *, jobs: int
) -> Generator[EncodedBlock, None, None]:
    """What becomes of each block, in their order, encoded by so many processes; in this one if it
    is 1, or if there are few blocks."""
    first = list(islice(blocks, FEW_BLOCKS)) if jobs > 1 else []
    if len(first) < FEW_BLOCKS:
        encoder = recipe.encoder()
        yield from map(encoder.encode, chain(first, blocks))
        return
    with EncodingWorkers(recipe, jobs) as workers:
        yield from workers.encode(chain(first, blocks))


class EncodingWorkers:
    """Processes that encode; a context manager, whose end ends them. They end by themselves when
    this process is killed."""

    def __init__(self, recipe: EncodingRecipe, jobs: int) -> None:
        self.jobs = jobs
        self._recipe = recipe
        self._processes: list[subprocess.Popen[bytes]] = []
        self._idle: queue.SimpleQueue[subprocess.Popen[bytes]] = queue.SimpleQueue()
        self._threads = ThreadPoolExecutor(jobs)

    def __enter__(self) -> "EncodingWorkers":
        try:
            for _ in range(self.jobs):
                command = [sys.executable, "-c", PROGRAM, *sys.path]
                process = subprocess.Popen(
                    command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
                )
                self._processes.append(process)
                _tell(process, self._recipe.to_parts())
                self._idle.put(process)
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()

    def encode(self, blocks: Iterator[PairBlock]) -> Iterator[EncodedBlock]:
        """What becomes of each block, in their order. Where the next block cannot be read, those
        before it come first."""
        waiting: deque[Future[EncodedBlock]] = deque()
        fault: AnydepthError | None = None
        is_over = False
        while True:
            while not is_over and len(waiting) < BLOCKS_AHEAD * self.jobs:
                try:
                    block = next(blocks, None)
                except AnydepthError as error:
                    block, fault = None, error
                if block is None:
                    is_over = True
                else:
                    waiting.append(self._threads.submit(self._ask, block))
            if not waiting:
                break
            yield waiting.popleft().result()
        if fault is not None:
            raise fault

    def _ask(self, block: PairBlock) -> EncodedBlock:
        """What an idle process makes of the block."""
        process = self._idle.get()
        assert process.stdout is not None
        _tell(process, block_parts(block))
        try:
            parts = receive(process.stdout)
        except EOFError as error:
            raise _gone(process) from error
        self._idle.put(process)
        return encoded_from_parts(parts)

    def _end(self) -> None:
        for process in self._processes:
            process.kill()
        self._threads.shutdown(wait=False, cancel_futures=True)
        for process in self._processes:
            self._idle.put(process)  # so that a thread that waits for one learns that it is gone
            process.wait()
        self._threads.shutdown()
        for process in self._processes:
            for stream in (process.stdin, process.stdout):
                assert stream is not None
                with suppress(OSError):  # what it was not told any more
                    stream.close()


def _tell(process: subprocess.Popen[bytes], parts: list[bytes]) -> None:
    assert process.stdin is not None
    try:
        send(process.stdin, parts)
    except OSError as error:
        raise _gone(process) from error


def _gone(process: subprocess.Popen[bytes]) -> AnydepthError:
    code = process.wait()
    how = f"by signal {-code}" if code < 0 else f"with exit code {code}"
    return AnydepthError(f"a process that encodes text was ended {how}; free some memory, or encode with --jobs 1")
