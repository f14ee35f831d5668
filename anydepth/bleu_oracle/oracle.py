"""The BLEU oracle: the exit that each sentence should have taken, by the scores of its
translations."""

from jaxtyping import Bool, Float, Int
from torch import Tensor

from anydepth.bleu_oracle.table import ScoreTable
from anydepth.exits.oracles import penalised_exits
from anydepth.text.batches import Batch


def score_oracle(scores: Float[Tensor, "block batch"], *, exit_penalty: float) -> Int[Tensor, " batch"]:
    """The exit of each sentence with the highest score of its translation there minus exit_penalty
    * n; ties go to the lower exit.

    Seq-BLEU: "oracles based on test metrics such as BLEU", which section 3.1 leaves for future
    work. Scores, and so the penalty of a block, are in points: 100 is a perfect translation.
    """
    return penalised_exits(scores, exit_penalty)


def score_oracle_targets(
    batch: Batch, table: ScoreTable, *, exit_penalty: float
) -> tuple[Int[Tensor, "batch time"], Bool[Tensor, "batch time"]]:
    """The oracle's exit at every position of a batch, and which of its targets have one: those of
    the sentences in `table`."""
    scores, is_scored = (tensor.to(batch.targets.device) for tensor in table.scores_of(batch.indices))
    exits = score_oracle(scores, exit_penalty=exit_penalty)
    return exits.unsqueeze(-1).expand(batch.targets.shape), batch.target_mask & is_scored.unsqueeze(-1)
