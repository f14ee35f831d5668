"""Every training sentence translated at every exit and scored one by one: what the BLEU oracle
learns from."""

import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Int
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF

from anydepth.bleu_oracle.store import ScoreStore
from anydepth.bleu_oracle.table import METRICS, SPLITS, ExitScores, ScoreRecipe, ScoreTable
from anydepth.errors import UsageError
from anydepth.files.checksums import known_hash
from anydepth.inference.engines.choice import make_engine
from anydepth.inference.engines.names import AUTOMATIC
from anydepth.inference.translator import Translator
from anydepth.messages.progress import ProgressBar
from anydepth.messages.say import Say
from anydepth.messages.times import describe_seconds
from anydepth.runs.models import load_model
from anydepth.runs.run import Run, changing, usable_data
from anydepth.search.decoding import GREEDY, DecodingOptions
from anydepth.text.prepared import PreparedData

SEED = 1  # of the sample; a larger one contains a smaller one
MOST_PARTS = 1000


@dataclass(frozen=True, kw_only=True)
class ScoreSettings:
    """How exits are scored: the metric, the search, how many pairs of each split (all if None), and
    how many are kept at a time."""

    metric: str = "bleu"
    decoding: DecodingOptions = GREEDY
    sentences: int | None = None
    part: int = 256

    def __post_init__(self) -> None:
        if self.metric not in METRICS:
            raise UsageError(f"--metric {self.metric} is unknown; use {' or '.join(METRICS)}")
        if self.sentences is not None and self.sentences < 1:
            raise UsageError(
                f"--sentences {self.sentences} leaves nothing to score; ask for 1 or more, or leave it out for all"
            )


class SentenceScorer:
    """Sentence-level BLEU (effective order, exponential smoothing) or chrF in points, 0 to 100,
    with sacreBLEU's signature."""

    def __init__(self, metric: str) -> None:
        self.metric = sentence_metric(metric)
        self.metric.sentence_score("", [""])  # only then does it know its signature
        self.signature = str(self.metric.get_signature())

    def scores(self, translations: list[str], reference: str) -> list[float]:
        """The score of each translation of one sentence; exits often agree, so each text is scored
        once."""
        known = {text: self.metric.sentence_score(text, [reference]).score for text in dict.fromkeys(translations)}
        return [known[text] for text in translations]


def sentence_metric(name: str) -> BLEU | CHRF:
    """sacreBLEU's metric of that name, fit for single sentences."""
    match name:
        case "bleu":
            return BLEU(smooth_method="exp", effective_order=True)
        case "chrf":
            return CHRF()
    raise UsageError(f"there is no sentence score {name!r}; known: {', '.join(METRICS)}")


def score_exits(
    folder: Path, settings: ScoreSettings, *, data_folder: Path | None = None, overwrite: bool = False, say: Say
) -> ExitScores:
    """The scores of the run's exits on its training and validation pairs, which are left in its
    folder (section 3.1's future work).

    What is there already is not made again: a call after a kill continues where the other was. The
    validation pairs, no more of them than of the training pairs, are for the exit loss that
    training is validated by.
    """
    with changing(folder):
        return _scored(Run(folder), settings, data_folder, overwrite=overwrite, say=say)


def _scored(run: Run, settings: ScoreSettings, data_folder: Path | None, *, overwrite: bool, say: Say) -> ExitScores:
    """`score_exits`, while no other process may write to the run."""
    scorer, translator = SentenceScorer(settings.metric), scoring_translator(run)
    data = usable_data(run, data_folder, use="score-exits")
    search = settings.decoding.resolved(translator.config)
    hashes = known_hash(run.weights_file), data.fingerprint
    recipe = ScoreRecipe(settings.metric, scorer.signature, search.beam, search.length_penalty, *hashes)
    store = ScoreStore(run, recipe, translator.model.blocks)
    store.load_earlier(overwrite=overwrite, say=say)
    missing = {split: missing_pairs(data, split, store.tables[split], settings.sentences) for split in SPLITS}
    if not any(len(numbers) for numbers in missing.values()):
        if store.parts():
            store.finish()
        say(f"{run.scores_file} has the scores of {describe_pairs(store)} already; there is nothing to do")
        return store.scores
    if any(len(table) for table in store.tables.values()):
        say(f"{describe_pairs(store)} are scored already; going on with the rest")
    started = time.monotonic()
    make_scores(translator, data, missing, settings, scorer, store, say)
    scores = store.finish()
    spent = describe_seconds(time.monotonic() - started)
    say(
        f"{run.scores_file} has the {settings.metric} of {describe_pairs(store)} at {translator.model.blocks} "
        f"exits; it took {spent}"
    )
    return scores


def scoring_translator(run: Run) -> Translator:
    """A translator of the run with the fastest engine that needs no export."""
    model = load_model(run)
    if model.config.exits != "all":
        raise UsageError(
            f"{run.folder} has one exit, after its last block, so there is nothing to choose; train with "
            'model.exits = "all"'
        )
    engine = make_engine(AUTOMATIC, model)
    return Translator(model, *run.tokenizers(), run.config.decoding, run=run, engine=engine)


def make_scores(
    translator: Translator,
    data: PreparedData,
    missing: dict[str, Int[np.ndarray, " pair"]],
    settings: ScoreSettings,
    scorer: SentenceScorer,
    store: ScoreStore,
    say: Say,
) -> None:
    """Scores the missing pairs part by part; each part is kept before the next begins."""
    total = sum(len(numbers) for numbers in missing.values())
    size = max(settings.part, -(-total // MOST_PARTS))
    with ProgressBar(total, f"pairs scored at {translator.model.blocks} exits", say) as progress:
        for split, numbers in missing.items():
            for part in (numbers[start : start + size] for start in range(0, len(numbers), size)):
                store.add(split, scored_pairs(translator, data, split, part, settings, scorer))
                progress.add(len(part))


def scored_pairs(
    translator: Translator,
    data: PreparedData,
    split: str,
    numbers: Int[np.ndarray, " pair"],
    settings: ScoreSettings,
    scorer: SentenceScorer,
) -> ScoreTable:
    """The scores of some pairs at every exit. The reference is what the target's tokens spell: the
    text itself is not kept."""
    pairs, limit = data.pairs(split), translator.model.config.max_length
    sequences = [pairs.source(number)[:limit].tolist() for number in numbers.tolist()]
    found = translator.engine.search_every_exit(sequences, settings.decoding.resolved(translator.config))
    spell = translator.target_tokenizer.decode
    rows = [
        scorer.scores([spell(hypothesis.tokens) for hypothesis in each], spell(pairs.target(number).tolist()))
        for number, each in zip(numbers.tolist(), found, strict=True)
    ]
    return ScoreTable(torch.from_numpy(numbers), torch.tensor(rows, dtype=torch.float64))


def missing_pairs(data: PreparedData, split: str, known: ScoreTable, sentences: int | None) -> Int[np.ndarray, " pair"]:
    """The numbers of the pairs of a split that are to be scored and are not yet, ascending; a pair
    without source cannot be."""
    pairs = data.pairs(split)
    fit = np.flatnonzero(pairs.lengths(0, len(pairs))[0] > 0)
    if sentences is not None and sentences < len(fit):
        fit = np.sort(np.random.Generator(np.random.PCG64(SEED)).permutation(fit)[:sentences])
    return np.setdiff1d(fit, known.pairs.numpy(), assume_unique=True)


def describe_pairs(store: ScoreStore) -> str:
    """How many pairs of each split have scores."""
    train, valid = (len(store.tables[split]) for split in SPLITS)
    return f"{train:,} training and {valid:,} validation pairs"
