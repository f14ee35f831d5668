"""Scores of what a run translates at each exit, sentence by sentence: what the BLEU oracle chooses
by."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from anydepth.config.schema import Config
from anydepth.errors import RunError
from anydepth.files.checksums import known_hash
from anydepth.files.reading import Unreadable, checked, parse_json
from anydepth.model.checkpoint import load_tensors, save_tensors
from anydepth.runs.run import Run

SPLITS = ("train", "valid")
METRICS = ("bleu", "chrf")


@dataclass(frozen=True)
class ScoreRecipe:
    """What scores were made from and how: two sets of scores of one recipe belong together."""

    metric: str
    signature: str
    beam: int
    length_penalty: float
    weights: str  # fingerprint of the run's weights
    data: str  # fingerprint of the prepared data

    def differs_in(self, other: "ScoreRecipe") -> list[str]:
        """The names of what is not the same in both."""
        mine, theirs = asdict(self), asdict(other)
        return [name for name in mine if mine[name] != theirs[name]]


@dataclass(frozen=True)
class ScoreTable:
    """The scores, 0 to 100, of some pairs of a split at each exit; pair numbers ascend."""

    pairs: Int[Tensor, " pair"]
    scores: Float[Tensor, "pair block"]

    def __len__(self) -> int:
        return len(self.pairs)

    def scores_of(self, pairs: Sequence[int]) -> tuple[Float[Tensor, "block batch"], Bool[Tensor, " batch"]]:
        """The scores of these pairs, and which of them have any; those of the others are 0."""
        wanted = torch.tensor(pairs, dtype=torch.long)
        places = torch.searchsorted(self.pairs, wanted).clamp(max=max(len(self.pairs) - 1, 0))
        is_known = self.pairs[places] == wanted if len(self.pairs) else torch.zeros(len(wanted), dtype=torch.bool)
        scores = torch.zeros(self.scores.shape[1], len(wanted), dtype=self.scores.dtype)
        scores[:, is_known] = self.scores[places[is_known]].t()
        return scores, is_known

    def joined(self, other: "ScoreTable") -> "ScoreTable":
        """The pairs of both; where both have a pair, the scores of this one."""
        fresh = ~torch.isin(other.pairs, self.pairs)
        pairs, scores = torch.cat([self.pairs, other.pairs[fresh]]), torch.cat([self.scores, other.scores[fresh]])
        order = pairs.argsort()
        return ScoreTable(pairs[order], scores[order])


@dataclass(frozen=True)
class ExitScores:
    """The scores of training and validation pairs, with their recipe."""

    recipe: ScoreRecipe
    train: ScoreTable
    valid: ScoreTable

    @property
    def tables(self) -> dict[str, ScoreTable]:
        return {"train": self.train, "valid": self.valid}


def save_scores(path: Path, recipe: ScoreRecipe, tables: Mapping[str, ScoreTable]) -> None:
    """Writes scores with their recipe, whole or not at all."""
    tensors = {f"{split}.{name}": tensor for split in SPLITS for name, tensor in _parts(tables[split]).items()}
    notes = {
        "recipe": json.dumps(asdict(recipe)),
        "sentences": json.dumps({split: len(tables[split]) for split in SPLITS}),
    }
    save_tensors(path, tensors, notes)


def load_scores(path: Path) -> ExitScores:
    """The scores in a file that `save_scores` wrote."""
    tensors, notes = load_tensors(path)
    try:
        tables = [_checked_table(tensors[f"{split}.pairs"], tensors[f"{split}.scores"]) for split in SPLITS]
        return ExitScores(checked(ScoreRecipe, parse_json(notes["recipe"])), *tables)
    except (KeyError, Unreadable) as error:
        raise RunError(f"{path} has no scores of exits ({error!r}); make them with `anydepth score-exits`") from error


def scores_to_learn_from(run: Run, data_fingerprint: str) -> Path:
    """The file with the scores of the run's exits; they must be those of its present weights, on
    the data with this fingerprint."""
    command = f"`anydepth score-exits {run.folder}`"
    if not run.seal.has(run.scores_file):
        raise RunError(
            f'exits.oracle = "bleu" learns from the scores of the exits of {run.folder}, which has none; make '
            f"them with {command}"
        )
    recipe = load_scores(run.scores_file).recipe
    if recipe.weights != known_hash(run.weights_file):
        raise RunError(
            f"the scores in {run.scores_file} were made with other weights than the run has now; make them again "
            f"with {command}"
        )
    if recipe.data != data_fingerprint:
        raise RunError(
            f"the scores in {run.scores_file} are of other training text than this; make them again with "
            f"{command} --data DIR"
        )
    return run.scores_file


def training_scores(run: Run, config: Config) -> ExitScores | None:
    """The scores that the oracle of `run` chooses by, if it is one that needs any."""
    if config.exits.oracle != "bleu":
        return None
    if not run.seal.has(run.oracle_scores_file):
        raise RunError(
            f"there is no {run.oracle_scores_file}, which the oracle of this run needs; make the run again with "
            "--from and --overwrite"
        )
    scores = load_scores(run.oracle_scores_file)
    if scores.recipe.data != run.data_note()["fingerprint"]:
        raise RunError(
            f"{run.oracle_scores_file} has scores of other training text; make the run again with --from and "
            "--overwrite"
        )
    if scores.train.scores.shape[1] != config.model.blocks:
        blocks = scores.train.scores.shape[1]
        raise RunError(
            f"{run.oracle_scores_file} has the scores of {blocks} exits, but the model has {config.model.blocks}"
        )
    return scores


def _checked_table(pairs: Tensor, scores: Tensor) -> ScoreTable:
    """The table of these two tensors, which come from a file."""
    is_right = pairs.dtype == torch.long and pairs.ndim == 1 and scores.dtype == torch.float64 and scores.ndim == 2
    if (
        not is_right
        or len(pairs) != len(scores)
        or not bool((pairs.diff() > 0).all())
        or not bool(torch.isfinite(scores).all())
    ):
        raise Unreadable("its pairs and scores are no table")
    return ScoreTable(pairs, scores)


def _parts(table: ScoreTable) -> dict[str, Tensor]:
    return {"pairs": table.pairs, "scores": table.scores}
