"""`anydepth adopt DIR --text FILE`: from another program's model and source-language text to a run
with exits, words and thresholds, and what that gains."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from anydepth.adding_exits.budget import AdoptionBudget, held_out_lines
from anydepth.adding_exits.exit_training import check_trunk, train_exits
from anydepth.adding_exits.gains import gains_table
from anydepth.adding_exits.own_translations import OwnTranslations, longest_line, translate_within
from anydepth.adding_exits.source_text import shuffled_lines
from anydepth.adding_exits.work_folder import AdoptionRequest, Trunk, WorkFolder
from anydepth.clock.rounds import Clock
from anydepth.errors import AdoptionError, AnydepthError, Interrupted
from anydepth.evaluation.vocabulary_check import CheckSettings, find_vocabulary, vocabulary_table
from anydepth.files.atomic import take_place, write_text
from anydepth.files.checksums import known_hash
from anydepth.files.locks import one_writer
from anydepth.inference.adopt.adoption import adopt
from anydepth.inference.adopt.marian_settings import read_settings
from anydepth.inference.adopt.model_folder import ModelFolder
from anydepth.inference.translator import Translator
from anydepth.messages.say import Say
from anydepth.runs.checked_vocabulary import load_checked
from anydepth.runs.operating_points import PointSet, load_points
from anydepth.runs.run import Run, check_place
from anydepth.runs.word_selections import TableSettings, learn_table
from anydepth.text.corpus import read_pairs
from anydepth.text.prepare import PrepareSettings, prepare
from anydepth.text.prepared import MANIFEST_NAME
from anydepth.tuning.clock_only import time_run
from anydepth.tuning.tune import TuneSettings, tune_sets
from anydepth.vocabulary.names import FULL, TABLE

# BLEU that choosing among fewer words may cost by default. It is counted against the model's own
# words, where every word that changes counts, and not only those that a reference has.
TOLERANCE = 1.0
# The points of a frozen trunk choose among the fewest words that have so many of the model's own. Its
# full depth is its own reference, where every change counts as a loss, so BLEU tells nothing there:
# docs/adopt.md has a measurement.
LEAST_COVERED = 0.97
# Points for every quarter of a block, whose times are measured afterwards: BLEU against own words
# falls with every change, so points chosen by time would leave out the careful ones. One candidate
# of each segment is decoded, because the time is limited.
TUNING = TuneSettings(objective="average-exit", decoded=1, rounds=3, timed=100)
STEPS = 6


@dataclass(frozen=True, kw_only=True)
class ExitsAsked:
    """What is learned from, for how long, and what may change."""

    text: Path
    minutes: float = 60.0
    trunk: Trunk = "trained"
    source_lang: str | None = None
    target_lang: str | None = None


def adopt_with_exits(
    place: Path, to: Path, asked: ExitsAsked, *, overwrite: bool = False, say: Say, clock: Clock = time.perf_counter
) -> str:
    """The table of what was gained; the run with exits is then at `to`.

    Everything is made in a folder beside it, and what is finished there is not made again. The run
    takes its place when all of it is done.
    """
    started, budget = clock(), AdoptionBudget(asked.minutes)
    run, work, request = Run(Path(to)), WorkFolder.beside(to), request_of(place, asked)
    if not overwrite and work.made(run, request):
        say(f"{to} is finished already; start anew with --overwrite")
        return gains_table(load_points(run)[-1], blocks=run.config.model.blocks)
    inside = {"DIR": Path(place), "--text": asked.text}
    check_place(run, overwrite=overwrite or work.replaces(request), inside=inside)
    lines = shuffled_lines(asked.text, say)
    with one_writer(run.folder):
        work.begin(request, overwrite=overwrite, inside=inside, say=say)
        try:
            table = ExitsOnTheWay(work, asked, budget, say, clock, started).go(place, lines)
        except Interrupted as error:
            without = " without --overwrite" if overwrite else ""
            raise Interrupted(f"stopped; the same command{without} goes on from what is in {work.folder}") from error
        take_place(work.run.folder, run.folder)
        work.finish()
    say(f"{run.folder}: with an exit after every block; the original and the text of training are in {work.folder}")
    return table


def request_of(place: Path, asked: ExitsAsked) -> AdoptionRequest:
    """The request for these exits; a model that has no room for exits, and text that is none, are
    refused."""
    folder = ModelFolder(place)
    if read_settings(folder).config.model.blocks == 1:
        raise AdoptionError(f"{place} has one decoder block, so there is no exit to add; adopt it without --text")
    if not asked.text.is_file():
        raise AdoptionError(
            f"--text {asked.text} is not a file; give text in the source language, one sentence per line"
        )
    languages = asked.source_lang, asked.target_lang
    return AdoptionRequest(folder.fingerprint(), known_hash(asked.text), asked.minutes, asked.trunk, *languages)


@dataclass(frozen=True)
class ExitsOnTheWay:
    """One command on its way: the steps from an adopted model to a tuned run with exits, each of
    which is passed over where it is finished."""

    work: WorkFolder
    asked: ExitsAsked
    budget: AdoptionBudget
    say: Say
    clock: Clock
    started: float

    def go(self, place: Path, lines: Sequence[str]) -> str:
        """The table of gains, once the run in the work folder is finished."""
        work, asked = self.work, self.asked
        self.adopt(place)
        self.tell(2, f"translating {asked.text} at full depth, for at most {self.budget.translating / 60:.1f} minutes")
        own = translate_within(work.original, lines, work.parts, self.budget, say=self.say, clock=self.clock)
        self.tell(3, f"preparing its translations in {work.data}")
        self.prepare(own)
        self.tell(4, f"training exits, trunk {asked.trunk}, in {work.run.folder}")
        spent = max(self.clock() - self.started, own.seconds)
        seconds = 0.0 if work.run.config_file.exists() else self.budget.training(spent)
        train_exits(work, asked.trunk, seconds=seconds, say=self.say)
        if asked.trunk == "frozen":
            self.prove_full_depth()
        self.choose_words()
        return gains_table(self.tuned(), blocks=work.run.config.model.blocks)

    def adopt(self, place: Path) -> None:
        """The run at full depth; a folder that cannot be adopted leaves nothing behind."""
        original, asked = self.work.original, self.asked
        self.tell(1, f"adopting {place}")
        if original.config_file.exists():
            self.say("adopted already")
            return
        source_lang, target_lang = asked.source_lang, asked.target_lang
        try:
            adopt(place, original.folder, source_lang=source_lang, target_lang=target_lang, say=self.say)
        except Interrupted:
            raise
        except AnydepthError:
            self.work.remove()
            raise

    def prepare(self, own: OwnTranslations) -> None:
        """The pairs as text and as tokens in the model's vocabulary: those that are held out, of
        these the ones to tune on, and the rest, which is trained on."""
        work, note, model = self.work, self.work.original.data_note(), self.work.original.config.model
        if (work.data / MANIFEST_NAME).exists():
            self.say("prepared already")
            return
        held_out = held_out_lines(len(own.sources))
        tuned = self.budget.tuned_lines(held_out, seconds_per_line=own.seconds_per_line)
        languages = note["source_lang"], note["target_lang"]
        for split, start, end in (("valid", 0, held_out), ("tune", 0, tuned), ("train", held_out, None)):
            for language, side in zip(languages, (own.sources, own.targets), strict=True):
                write_lines(work.text / f"{split}.{language}", side[start:end])
        self.say(f"{held_out:,} lines are held out, and {tuned:,} of them are for words and thresholds")
        settings = PrepareSettings(
            source_lang=languages[0],
            target_lang=languages[1],
            train=str(work.text / "train"),
            valid=str(work.text / "valid"),
            joint=work.original.is_joint,
            max_tokens=longest_line(model.max_length),
            tokenizer_from=str(work.original.folder),
        )
        prepare(settings, work.data, say=self.say)

    def prove_full_depth(self) -> None:
        """Says that full depth is what it was, after a look at every weight and at translations."""
        work = self.work
        weights = check_trunk(work.original, work.run)
        note = work.run.data_note()
        pairs = list(read_pairs(self.tuning_text, note["source_lang"], note["target_lang"]))
        found = Translator.load(work.run.folder).translate([source for source, _ in pairs], vocabulary=FULL)
        same = sum(each.line == target for each, (_, target) in zip(found, pairs, strict=True))
        if same < len(pairs):
            self.say(f"warning: {len(pairs) - same:,} of {len(pairs):,} held-out translations are not the original's")
        self.say(
            f"all {weights:,} weights of full depth are the original's, bit for bit, and {same:,} of {len(pairs):,} "
            "held-out translations"
        )

    def choose_words(self) -> None:
        """The words that each sentence may use, by a lexical table.

        Beside a frozen trunk all words stay the default, because full depth is to be the original's;
        the points may choose among fewer.
        """
        run = self.work.run
        self.tell(5, "learning which words a sentence may need")
        if run.vocabulary_file.exists():
            self.say("learned already")
            return
        settings = CheckSettings.of_kind(TABLE, tolerance=TOLERANCE, keeps_all_words=self.asked.trunk == "frozen")
        found = find_vocabulary(
            run.folder,
            self.tuning_text,
            settings,
            lambda of: learn_table(of, TableSettings(), say=self.say),
            say=self.say,
        )
        if not settings.keeps_all_words:
            self.say(vocabulary_table(found))

    def tuned(self) -> PointSet:
        """The points of the run, with their times."""
        run = self.work.run
        self.tell(6, "finding thresholds for every budget")
        if run.points_file.exists():
            self.say("tuned already")
            found = load_points(run)[-1]
        else:
            (found,) = tune_sets(run.folder, self.tuning_text, [None], [self.words_of_points()], TUNING, say=self.say)
        return found if found.clock is not None else time_run(run.folder, None, TUNING, say=self.say)[-1]

    def words_of_points(self) -> str | None:
        """The vocabulary setting of the points; None is the run's own."""
        checked = load_checked(self.work.run)
        if self.asked.trunk == "trained" or checked is None:
            return None
        covering = [each for each in checked.measured if each.coverage >= LEAST_COVERED]
        return min(covering, key=lambda each: each.words).vocabulary

    @property
    def tuning_text(self) -> str:
        """The prefix of the lines that words and thresholds are chosen on."""
        return str(self.work.text / "tune")

    def tell(self, number: int, what: str) -> None:
        """Says which step begins."""
        self.say(f"[{number}/{STEPS}] {what}")


def write_lines(path: Path, lines: Sequence[str]) -> None:
    """Writes a text, whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_text(path, "".join(f"{line}\n" for line in lines))
