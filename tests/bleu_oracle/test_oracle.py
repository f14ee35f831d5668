"""The BLEU oracle against an exact loop, ties, and batches of which some sentences have scores."""

import pytest
import torch
from tiny import BLOCKS, tiny_pairs

from anydepth.bleu_oracle.oracle import score_oracle, score_oracle_targets
from anydepth.bleu_oracle.table import ScoreTable
from anydepth.text.batches import make_batch


@pytest.mark.parametrize("penalty", [0.0, 0.7, 5.0, 12.5])
def test_a_score_oracle_is_the_best_penalised_score_of_each_sentence(penalty: float) -> None:
    # ties abound
    scores = torch.randint(0, 9, (BLOCKS, 200), generator=torch.Generator().manual_seed(1)).double() * 12.5
    found = score_oracle(scores, exit_penalty=penalty).tolist()
    expected = []
    for sentence in scores.t().tolist():
        best = 1
        for n in range(2, BLOCKS + 1):
            if sentence[n - 1] - penalty * n > sentence[best - 1] - penalty * best:
                best = n
        expected.append(best)
    assert found == expected
    assert len(set(found)) == BLOCKS


def test_equal_scores_and_a_gain_that_the_penalty_eats_up_go_to_the_lowest_exit() -> None:
    scores = torch.tensor([[40.0, 40.0, 40.0, 40.0], [40.0, 43.0, 46.0, 49.0], [40.0, 45.0, 46.0, 47.0]]).t()
    assert score_oracle(scores, exit_penalty=0.0).tolist() == [1, 4, 4]
    assert score_oracle(scores, exit_penalty=3.0).tolist() == [1, 1, 2]


def test_targets_of_sentences_without_scores_have_no_oracle() -> None:
    batch = make_batch(tiny_pairs(5), [4, 0, 2])
    table = ScoreTable(
        torch.tensor([0, 1, 4]), torch.tensor([[10.0, 40, 20, 30], [0, 0, 0, 0], [9, 9, 50, 51]]).double()
    )
    exits, has_oracle = score_oracle_targets(batch, table, exit_penalty=2.0)
    assert exits[[0, 1]].tolist() == [[3] * exits.shape[1], [2] * exits.shape[1]]
    assert has_oracle[[0, 1]].equal(batch.target_mask[[0, 1]])
    assert not has_oracle[2].any()
