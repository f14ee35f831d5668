"""What the runs of a race get after their training: the words that each sentence may need, checked
on valid, and for the adaptive ones thresholds for every budget."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from anydepth.evaluation.vocabulary_check import CheckSettings, find_vocabulary
from anydepth.experiments.definition import Study
from anydepth.experiments.measuring import run_record
from anydepth.experiments.race import FAMILIES, JUDGE, held_out_pairs, race_runs
from anydepth.experiments.records import write_record
from anydepth.experiments.study_folder import StudyFolder
from anydepth.experiments.variants import Variant
from anydepth.files.atomic import write_text
from anydepth.inference.translator import Translator
from anydepth.messages.say import Say
from anydepth.runs.checked_vocabulary import CheckedVocabulary, load_checked, save_checked
from anydepth.runs.run import Run, changing
from anydepth.runs.word_selections import TableSettings, learn_table
from anydepth.search.decoding import DecodingOptions
from anydepth.text.prepared import PreparedData
from anydepth.tuning.tune import TuneSettings, tune_sets
from anydepth.vocabulary.names import TABLE

TOLERANCE = 0.2  # BLEU on valid that fewer words may cost: what counts as equal in the race, too
PER_PIECE = (5, 10, 20, 50, 100)  # words that each source piece may bring
TABLE_SETTINGS = TableSettings(frequent=50)
# Narrow segments: a point is worth most just below the time of a rival.
TUNING = TuneSettings(decoding=DecodingOptions(beam=1), segment=0.02, decoded=2, judge=JUDGE)


def choose_words(study: Study, folder: StudyFolder, variant: Variant, *, say: Say) -> None:
    """Learns the lexical table of a run, measures on valid how many words keep its BLEU, and writes the
    record of the run, whose figures the heats have."""
    run = Run(folder.run(variant.run))

    def learn(of: Run) -> None:
        learn_table(of, TABLE_SETTINGS, say=say)

    settings = CheckSettings.of_kind(TABLE, PER_PIECE, tolerance=TOLERANCE)
    find_vocabulary(run.folder, str(folder.held_out), settings, learn, say=say)
    write_record(folder.run_record(variant.run), run_record(study, folder, variant, Translator.load(run.folder), []))


def agree_on_words(study: Study, folder: StudyFolder, *, say: Say) -> None:
    """Stores with all runs of the race the same choice of words, and which it was."""
    runs = [Run(folder.run(variant.run)) for variant in race_runs(study)]
    found = [load_checked(run) for run in runs]
    measured = [each for each in found if each is not None]
    assert len(measured) == len(runs), "each run's words were measured"
    chosen, losses = common_words(measured)
    for vocabulary, loss in losses.items():
        say(f"vocabulary {vocabulary}: {-loss:+.2f} BLEU on valid, the median of {len(runs)} runs")
    for run, each in zip(runs, measured, strict=True):
        with changing(run.folder):
            save_checked(run, replace(each, chosen=chosen))
    write_text(folder.common_words_file, json.dumps({"vocabulary": chosen, "losses": losses}, indent=1) + "\n")


def common_words(measured: Sequence[CheckedVocabulary]) -> tuple[str, dict[str, float]]:
    """The setting with the fewest words whose cost in BLEU on valid, the median over the runs, is within
    the tolerance, or else the one with the most words; and what each setting costs.

    What a single run loses on a thousand sentences is as uncertain as the tolerance is large, and
    runs with different numbers of words would differ in time for no other reason. A run that is far
    from trained gains from fewer words, which a mean would take for all.
    """
    rows = [[{word.vocabulary: word for word in each.measured}[name] for each in measured] for name in names(measured)]
    full, *others = rows
    losses = [float(np.median([all_.bleu - few.bleu for all_, few in zip(full, row, strict=True)])) for row in others]
    sizes = [float(np.mean([few.words for few in row])) for row in others]
    told = {row[0].vocabulary: round(loss, 4) for row, loss in zip(others, losses, strict=True)}
    fitting = [place for place, loss in enumerate(losses) if loss <= TOLERANCE]
    place = min(fitting, key=lambda place: sizes[place]) if fitting else int(np.argmax(sizes))
    return others[place][0].vocabulary, told


def names(measured: Sequence[CheckedVocabulary]) -> list[str]:
    """The settings that every run was measured with, all words first."""
    common = set.intersection(*({word.vocabulary for word in each.measured} for each in measured))
    return [word.vocabulary for word in measured[0].measured if word.vocabulary in common]


def tune_run_for_race(study: Study, folder: StudyFolder, variant: Variant, *, say: Say) -> None:
    """Finds the tuned points of a run: for time where the native engine is at hand, else for
    FLOPs."""
    tune_sets(folder.run(variant.run), str(folder.held_out), FAMILIES, [None], TUNING, say=say)


def write_held_out(study: Study, folder: StudyFolder) -> None:
    """Writes the pairs of valid that words and thresholds are chosen on."""
    data = PreparedData.open(Path(study.data.folder))
    folder.held_out.parent.mkdir(parents=True, exist_ok=True)
    for language, lines in zip(
        (data.source_lang, data.target_lang), zip(*held_out_pairs(data, "valid"), strict=True), strict=True
    ):
        write_text(folder.held_out.with_suffix(f".{language}"), "".join(f"{line}\n" for line in lines))
