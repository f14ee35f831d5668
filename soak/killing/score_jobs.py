"""Scoring of exits that is killed again and again."""

import random
import shutil
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from anydepth.model.checkpoint import load_tensors, own_tensors
from anydepth.runs.run import Run
from killing.crew_trials import ROOT, CrewTrial, environment, write_lines

RUN = ROOT / "tests" / "samples" / "runs" / "aligned"
BEAM = 16  # with which a part takes about a second
PART = 256  # pairs
NOTICE = 30.0  # seconds within which a driver says that a worker is gone
LOST = ": its worker was "  # as a driver says it, with the place of the part


def call(*arguments: object) -> list[str]:
    return [sys.executable, "-m", "anydepth", *map(str, arguments)]


def prepared_text(place: Path, parts: int, chance: random.Random) -> Path:
    """Prepared data of so many parts in the vocabulary of the sample run."""
    for split, count in (("train", parts * PART), ("valid", PART)):
        for language in ("de", "en"):
            write_lines(place / f"{split}.{language}", count, chance)
    to, splits = place / "data", ("--train", place / "train", "--valid", place / "valid")
    languages = ("--source-lang", "de", "--target-lang", "en")
    command = call("prepare", *languages, *splits, "--tokenizer-from", RUN, "--to", to)
    subprocess.run(command, env=environment(), check=True, stderr=subprocess.DEVNULL)
    return to


def run_without_scores(to: Path) -> Run:
    run = Run(Path(shutil.copytree(RUN, to)))
    run.seal.remove([run.scores_file])
    return run


def scoring_command(run: Run, data: Path, *options: object) -> list[str]:
    return call("score-exits", run.folder, "--data", data, "--beam", BEAM, *options)


@dataclass(kw_only=True)
class ScoreTrial(CrewTrial):
    """Scoring of `run` on `data`, whose scores must become those of `undisturbed`."""

    run: Run
    undisturbed: Run
    data: Path
    parts_before: int = 0  # when somebody was killed last
    losses: int = 0  # of workers, that the driver told by then
    misses: int = 0  # kills of workers that had nothing yet, or of drivers that had nothing left

    def command(self) -> list[str]:
        return scoring_command(self.run, self.data, "--retries", 1000, *self.where)

    def parts(self) -> int:
        return len(list((self.run.folder / "exit_scores").glob("part-*.safetensors")))

    def has_missing(self) -> bool:
        """Whether pairs have no scores in any part."""
        if self.run.scores_file.exists():
            return False
        kept = sum(pairs_in(part) for part in (self.run.folder / "exit_scores").glob("part-*.safetensors"))
        return kept < pairs_in(self.undisturbed.scores_file)

    def told_losses(self) -> int:
        return self.log.read_text(errors="replace").count(LOST)

    def at_work(self) -> list[int]:
        """The workers that have worked longest, once a part was finished since the last kill: until the
        last part is done they have others."""
        if self.parts() <= self.parts_before:
            return []
        assert self.driver is not None
        parents = [self.driver.pid] if self.nodes is None else self.nodes.processes()
        found = {process: ticks for process, ticks in workers_of(parents).items() if ticks}
        return [process for process, ticks in found.items() if ticks * 2 >= max(found.values())]

    def has_hit(self, kind: str) -> bool:
        """Whether the driver tells that it has lost the worker of a part; one that is killed itself
        loses what all of them had, if it was not done."""
        deadline = time.monotonic() + NOTICE
        is_hit = kind == "driver" and self.has_missing()
        while not is_hit and time.monotonic() < deadline and self.driver is not None and self.driver.poll() is None:
            time.sleep(0.05)
            is_hit = self.told_losses() > self.losses
        self.losses, self.parts_before = self.told_losses(), self.parts()
        self.misses += not is_hit
        return is_hit

    def verdict(self, name: str, wanted: int) -> bool:
        self.finish()
        (found, notes), (expected, expected_notes) = (
            load_tensors(each.scores_file) for each in (self.run, self.undisturbed)
        )
        is_same = notes == expected_notes and list(found) == list(expected)
        is_same = is_same and all(found[each].equal(expected[each]) for each in expected)
        kills, has_trace = self.kills.total(), "Traceback" in self.log.read_text(errors="replace")
        is_clear = not (self.run.folder / "exit_scores").exists() and not has_trace
        state = f"the scores of an undisturbed call, {len(found['train.pairs']):,} training pairs"
        state = state if is_same else "WRONG: other scores than those of an undisturbed call"
        state += "" if is_clear else "; WRONG: a traceback in the log" if has_trace else "; WRONG: parts were left"
        print(
            f"score kills: {name}: {kills} of {wanted} kills hit ({self.hits}), {self.losses} parts of lost workers "
            f"tried again, {self.misses} kills that hit no part: {state}",
            flush=True,
        )
        return is_same and is_clear and kills == wanted


def pairs_in(file: Path) -> int:
    """How many pairs of both splits a file of scores has."""
    tensors, _ = own_tensors(file)  # a kill may come before the seal knows it
    return sum(len(tensor) for name, tensor in tensors.items() if name.endswith(".pairs"))


def workers_of(parents: list[int]) -> dict[int, int]:
    """The worker processes that one of `parents` started, and the processor time that each has used,
    in ticks."""
    found = {}
    for place in Path("/proc").glob("[0-9]*"):
        with suppress(OSError, IndexError):  # it may end while it is looked at
            fields = (place / "stat").read_text().rpartition(")")[2].split()
            words = (place / "cmdline").read_bytes()
            if int(fields[1]) in parents and (b"spawn_main" in words or words.startswith(b"ray::RayWorker")):
                found[int(place.name)] = int(fields[11]) + int(fields[12])
    return found
