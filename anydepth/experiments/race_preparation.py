"""What the runs of a race get after their training: the words that each sentence may need, checked
on valid, and for the adaptive ones thresholds for every budget."""

from dataclasses import replace
from pathlib import Path

from anydepth.evaluation.vocabulary_check import CheckSettings, find_vocabulary
from anydepth.experiments.definition import Study
from anydepth.experiments.measuring import run_record
from anydepth.experiments.race import FAMILIES, held_out_pairs
from anydepth.experiments.records import write_record
from anydepth.experiments.study_folder import StudyFolder
from anydepth.experiments.variants import Variant
from anydepth.files.atomic import write_text
from anydepth.inference.translator import Translator
from anydepth.messages.say import Say
from anydepth.runs.checked_vocabulary import save_checked
from anydepth.runs.run import Run, changing
from anydepth.runs.word_selections import TableSettings, learn_table
from anydepth.search.decoding import DecodingOptions
from anydepth.text.prepared import PreparedData
from anydepth.tuning.tune import TuneSettings, tune_sets
from anydepth.vocabulary.names import TABLE

TOLERANCE = 0.2  # BLEU on valid that fewer words may cost: what counts as equal in the race, too
PER_PIECE = (10, 20, 50, 100)  # words that each source piece may bring
TABLE_SETTINGS = TableSettings(frequent=50)
# Narrow segments: a point is worth most just below the time of a rival.
TUNING = TuneSettings(decoding=DecodingOptions(beam=1), segment=0.02, decoded=2)


def choose_words(study: Study, folder: StudyFolder, variant: Variant, *, say: Say) -> None:
    """Learns the lexical table of a run, stores the smallest choice of words that keeps its BLEU on
    valid, or else the largest, and writes the record of the run, whose figures the heats have."""
    run = Run(folder.run(variant.run))

    def learn(of: Run) -> None:
        learn_table(of, TABLE_SETTINGS, say=say)

    settings = CheckSettings.of_kind(TABLE, PER_PIECE, tolerance=TOLERANCE)
    found = find_vocabulary(run.folder, str(folder.held_out), settings, learn, say=say)
    if found.chosen is None:  # all words would cost more time than what is missing is worth
        with changing(run.folder):
            save_checked(run, replace(found, chosen=settings.vocabularies[-1]))
    write_record(folder.run_record(variant.run), run_record(study, folder, variant, Translator.load(run.folder), []))


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
