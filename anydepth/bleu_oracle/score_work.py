"""The work of scoring some pairs, the same wherever it is done: a worker loads the model once,
translates at every exit, and scores sentence by sentence."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF

from anydepth.bleu_oracle.table import METRICS, ScoreRecipe, ScoreTable
from anydepth.bulk.crew import CrewJob
from anydepth.errors import AnydepthError, UsageError
from anydepth.files.checksums import known_hash
from anydepth.inference.engines.choice import automatic_engine, make_engine
from anydepth.runs.models import check_weights, load_model
from anydepth.runs.run import Run, usable_data
from anydepth.search.decoding import DecodingOptions, SearchSettings
from anydepth.text.prepared import PreparedData

ScoreRows = list[list[float]]  # the scores of each pair at each exit


@dataclass(frozen=True)
class ScorePart:
    """Some pairs of a split, by their ascending numbers, which count from 0."""

    split: str
    pairs: tuple[int, ...]

    @property
    def records(self) -> int:
        return len(self.pairs)

    @property
    def place(self) -> str:
        """Where it is, for people, who count from 1."""
        first, last = self.pairs[0] + 1, self.pairs[-1] + 1
        if first == last:
            return f"{self.split} pair {first:,}"
        return f"{self.records:,} {self.split} pairs between {first:,} and {last:,}"

    def table(self, rows: ScoreRows) -> ScoreTable:
        """The scores of the pairs as a table."""
        return ScoreTable(torch.tensor(self.pairs), torch.tensor(rows, dtype=torch.float64))


@dataclass(frozen=True, kw_only=True)
class ScoreJob(CrewJob[ScorePart, ScoreRows]):
    """The job of scoring pairs: the run, the text, the search, and what the scores are made from."""

    run: Path
    data: Path
    engine: str
    search: SearchSettings
    recipe: ScoreRecipe

    def loaded(self) -> Callable[[ScorePart], ScoreRows]:
        return PartScorer(self).do


class PartScorer:
    """A loaded model that translates at every exit, and a metric."""

    def __init__(self, job: ScoreJob) -> None:
        run = Run(job.run)
        self.search, self.scorer = job.search, SentenceScorer(job.recipe.metric)
        self.engine = make_engine(job.engine, load_model(run), threads=job.threads)
        self.limit, self.spell = run.config.model.max_length, run.tokenizers()[1].decode
        self.data = usable_data(run, job.data, use="score-exits")
        different = job.recipe.differs_in(recipe_of(run, self.data, self.scorer, job.search))
        if different:
            raise AnydepthError(
                f"{job.run} or its text is another for a worker than for the command ({different[0]} differs); begin "
                "again when both rest"
            )

    def do(self, part: ScorePart) -> ScoreRows:
        """The scores of the pairs at every exit. The reference is what the target's tokens spell: the
        text itself is not kept."""
        pairs, spell = self.data.pairs(part.split), self.spell
        sequences = [pairs.source(number)[: self.limit].tolist() for number in part.pairs]
        found = self.engine.search_every_exit(sequences, self.search)
        return [
            self.scorer.scores([spell(hypothesis.tokens) for hypothesis in each], spell(pairs.target(number).tolist()))
            for number, each in zip(part.pairs, found, strict=True)
        ]


class SentenceScorer:
    """Sentence-level BLEU (effective order, exponential smoothing) or chrF in points, 0 to 100,
    with sacreBLEU's signature."""

    def __init__(self, metric: str) -> None:
        self.name, self.metric = metric, sentence_metric(metric)
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


def check_scorable(run: Run) -> None:
    """Refuses a run that has no exits to score, without loading its model."""
    check_weights(run)
    if run.config.model.exits != "all":
        raise UsageError(
            f"{run.folder} has one exit, after its last block, so there is nothing to choose; train with "
            'model.exits = "all"'
        )


def score_job(run: Run, data: PreparedData, *, metric: str, decoding: DecodingOptions) -> ScoreJob:
    """The job of scoring pairs of `data`, with the fastest engine that needs no export."""
    search = decoding.resolved(run.config.decoding)
    recipe = recipe_of(run, data, SentenceScorer(metric), search)
    engine = automatic_engine(None, int8=False, blocks=run.config.model.blocks)
    return ScoreJob(run=run.folder.resolve(), data=data.folder.resolve(), engine=engine, search=search, recipe=recipe)


def recipe_of(run: Run, data: PreparedData, scorer: SentenceScorer, search: SearchSettings) -> ScoreRecipe:
    """What scores of the run on this text are made from and how."""
    return ScoreRecipe(
        metric=scorer.name,
        signature=scorer.signature,
        beam=search.beam,
        length_penalty=search.length_penalty,
        weights=known_hash(run.weights_file),
        data=data.fingerprint,
    )
