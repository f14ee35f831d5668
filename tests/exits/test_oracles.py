"""Oracles against exact loops over sentences, positions and exits; ties, padding and limits."""

import pytest
import reference
import torch
from tiny import BATCH, BLOCKS, TIME, tiny_config
from torch import Tensor

from anydepth.config.schema import ExitsConfig
from anydepth.errors import UsageError
from anydepth.exits.oracles import (
    OracleError,
    oracle_exits,
    penalised_exits,
    rbf_kernel,
    sequence_oracle,
    token_oracle,
)

LENGTHS = [TIME, 2, TIME - 1]
MASK = torch.arange(TIME) < torch.tensor(LENGTHS)[:, None]
# the first above 0 gives the ends of a sentence a weight in each other that exceeds the oracles'
# resolution
WIDTHS = [
    0.0,
    1.4,
    5.0,
    30.0,
]
PENALTIES = [0.0, 0.1, 0.5, 1.0]


def settings(halting: str, oracle: str, penalty: float, width: float) -> ExitsConfig:
    changes = (f"halting={halting}", f"oracle={oracle}", f"exit_penalty={penalty}", f"kernel_width={width}")
    return tiny_config(*(f"exits.{change}" for change in changes)).exits


def random_scores(seed: int) -> tuple[Tensor, Tensor]:
    """Log-likelihoods and correctness of every exit at every position."""
    generator = torch.Generator().manual_seed(seed)
    likelihoods = -torch.rand(BLOCKS, BATCH, TIME, generator=generator) * 3
    return likelihoods, torch.rand(BLOCKS, BATCH, TIME, generator=generator) < 0.6


def by_sentence(scores: Tensor) -> list[list[list[float]]]:
    """The real scores as [sentence][n - 1][t]."""
    return [scores[:, row, :length].double().tolist() for row, length in enumerate(LENGTHS)]


def real(exits: Tensor) -> list[list[int]]:
    assert exits.shape == MASK.shape
    return [exits[row, :length].tolist() for row, length in enumerate(LENGTHS)]


@pytest.mark.parametrize("oracle", ["likelihood", "correctness"])
@pytest.mark.parametrize("penalty", PENALTIES)
def test_a_sequence_oracle_is_the_best_penalised_sum_of_the_whole_sentence(oracle: str, penalty: float) -> None:
    found = set()
    for seed in range(20):
        likelihoods, correct = random_scores(seed)
        exits = real(oracle_exits(settings("sequence", oracle, penalty, 0.0), likelihoods, correct, MASK))
        scores = likelihoods if oracle == "likelihood" else correct
        assert exits == [reference.sequence_oracle(own, penalty) for own in by_sentence(scores)]
        found |= {left for sentence in exits for left in sentence}
    assert len(found) > 1, "else this shows little"


@pytest.mark.parametrize("halting", ["multinomial", "geometric"])
@pytest.mark.parametrize("oracle", ["likelihood", "correctness"])
@pytest.mark.parametrize("penalty", PENALTIES)
@pytest.mark.parametrize("width", WIDTHS)
def test_a_token_oracle_is_the_best_penalised_smoothed_score_of_each_position(
    halting: str, oracle: str, penalty: float, width: float
) -> None:
    for seed in range(5):
        likelihoods, correct = random_scores(seed)
        scores = likelihoods if oracle == "likelihood" else correct
        exits = real(oracle_exits(settings(halting, oracle, penalty, width), likelihoods, correct, MASK))
        assert exits == [reference.token_oracle(own, penalty, width) for own in by_sentence(scores)]


def test_the_kernel_is_the_gaussian_of_the_distance_and_not_normalised() -> None:
    kernel = rbf_kernel(5, 2.0)
    expected = [
        [torch.tensor(-((t - other) ** 2) / 2.0, dtype=torch.float64).exp() for other in range(5)] for t in range(5)
    ]
    torch.testing.assert_close(kernel, torch.tensor(expected))
    assert (kernel.sum(dim=0) > 1.5).all()


@pytest.mark.parametrize("width", [0.0, 0.3, 7.0, 50.0, 1e4])
def test_exits_that_are_correct_at_the_same_positions_tie_to_the_lowest(width: float) -> None:
    generator = torch.Generator().manual_seed(2)
    mask = torch.arange(41) < torch.tensor([41, 29, 13])[:, None]
    pattern = torch.rand(3, 41, generator=generator) < 0.5
    same = pattern.expand(BLOCKS, 3, 41)
    assert (token_oracle(same, mask, exit_penalty=0.0, kernel_width=width)[mask] == 1).all()
    worse_first = torch.cat([torch.zeros_like(same[:1]), same[1:]])  # the last three tie
    found = token_oracle(worse_first, mask, exit_penalty=0.0, kernel_width=width)[mask]
    assert set(found.tolist()) <= {1, 2}
    assert (found == 2).any()


@pytest.mark.parametrize("width", [0.3, 7.0, 50.0, 1e4])
def test_scores_whose_smoothed_sums_differ_by_rounding_alone_tie_to_the_lowest(width: float) -> None:
    """Seen from the middle, scores and their mirror image have the same sums, added up in another
    order."""
    scores = -torch.rand(1, 200, 41, generator=torch.Generator().manual_seed(3))
    turned = torch.cat([scores, scores.flip(-1), scores])
    sums = turned.double() @ rbf_kernel(41, width)
    assert not sums[0, :, 20].equal(sums[1, :, 20]), "else there is nothing to decide"
    mask = torch.ones(200, 41, dtype=torch.bool)
    assert (token_oracle(turned, mask, exit_penalty=0.0, kernel_width=width)[:, 20] == 1).all()


def test_sentences_whose_sums_differ_by_rounding_alone_tie_to_the_lowest() -> None:
    scores = -torch.rand(1, 200, 41, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    turned = torch.cat([scores, scores.roll(7, dims=-1), scores.flip(-1)])
    assert not turned.sum(dim=-1)[0].equal(turned.sum(dim=-1)[1])
    assert (sequence_oracle(turned, torch.ones(200, 41, dtype=torch.bool), exit_penalty=0.0) == 1).all()


def test_a_difference_counts_from_a_billionth_on() -> None:
    """Below that it may be the rounding of a sum."""
    scores = torch.tensor([[-2.0, -2.0, -2.0], [-2.0 + 1e-10, -2.0 + 1e-8, -2.0 - 1e-10]], dtype=torch.float64)
    assert penalised_exits(scores, 0.0).tolist() == [1, 2, 1]


def test_a_gain_that_the_penalty_eats_up_exactly_is_a_tie() -> None:
    """With a penalty of 1 a token more for each block more is worth nothing, 2 tokens more are."""
    correct = torch.arange(TIME) < torch.tensor([1, 2, 3, 4])[:, None]
    whole = torch.ones(1, TIME, dtype=torch.bool)
    assert sequence_oracle(correct[:, None], whole, exit_penalty=1.0).tolist() == [[1] * TIME]
    correct = torch.arange(TIME) < torch.tensor([1, 3, 4, 5])[:, None]
    assert sequence_oracle(correct[:, None], whole, exit_penalty=1.0).tolist() == [[2] * TIME]


@pytest.mark.parametrize("halting", ["sequence", "geometric"])
@pytest.mark.parametrize("oracle", ["likelihood", "correctness"])
@pytest.mark.parametrize("width", [0.0, 2.0, 1e6])
def test_what_stands_at_padding_changes_nothing(halting: str, oracle: str, width: float) -> None:
    config = settings(halting, oracle, 0.1, 0.0 if halting == "sequence" else width)
    likelihoods, correct = random_scores(1)
    expected = real(oracle_exits(config, likelihoods, correct, MASK))
    for junk in (-1e9, 1e9, float("inf"), float("nan")):
        spoiled = torch.where(MASK, likelihoods, junk)
        assert real(oracle_exits(config, spoiled, torch.where(MASK, correct, ~correct), MASK)) == expected
    for row, length in enumerate(LENGTHS):
        alone = oracle_exits(config, likelihoods[:, [row], :length], correct[:, [row], :length], MASK[[row], :length])
        assert alone.tolist() == [expected[row]]


@pytest.mark.parametrize("oracle", ["likelihood", "correctness"])
@pytest.mark.parametrize("penalty", PENALTIES)
def test_a_vanishing_kernel_sees_the_token_alone_and_an_endless_one_the_sentence(oracle: str, penalty: float) -> None:
    likelihoods, correct = random_scores(4)
    scores = likelihoods if oracle == "likelihood" else correct
    alone = penalised_exits(scores.double(), penalty)
    numbers = torch.arange(1, BLOCKS + 1)[:, None, None]
    assert alone.equal((scores.double() - penalty * numbers).argmax(dim=0) + 1)
    for width in (0.0, 1e-3, 1e-300):
        assert real(token_oracle(scores, MASK, exit_penalty=penalty, kernel_width=width)) == real(alone)
    together = sequence_oracle(scores, MASK, exit_penalty=penalty)
    assert real(token_oracle(scores, MASK, exit_penalty=penalty, kernel_width=1e15)) == real(together)


@pytest.mark.parametrize("penalty", [1e4, 1e12])
@pytest.mark.parametrize("width", WIDTHS)
def test_a_huge_penalty_sends_everything_to_exit_1(penalty: float, width: float) -> None:
    for scores in random_scores(5):
        assert (token_oracle(scores, MASK, exit_penalty=penalty, kernel_width=width)[MASK] == 1).all()
        assert (sequence_oracle(scores, MASK, exit_penalty=penalty)[MASK] == 1).all()


def test_one_block_leaves_no_choice() -> None:
    likelihoods, correct = (scores[:1] for scores in random_scores(6))
    assert (token_oracle(likelihoods, MASK, exit_penalty=0.1, kernel_width=2.0)[MASK] == 1).all()
    assert (sequence_oracle(correct, MASK, exit_penalty=0.1)[MASK] == 1).all()


def test_the_bleu_oracle_cannot_be_asked_for_by_the_scores_of_targets() -> None:
    config = tiny_config("exits.halting=sequence", "exits.oracle=bleu").exits
    with pytest.raises(
        OracleError,
        match=r"the oracle 'bleu' does not choose by what the exits say of the targets; "
        r"those that do: likelihood, correctness$",
    ):
        oracle_exits(config, *random_scores(1), MASK)


def test_an_oracle_or_a_halting_module_of_an_unknown_name_is_refused_instead_of_trained_with_another() -> None:
    for oracle in ("entropy", ""):
        config = tiny_config("exits.halting=geometric").exits.model_copy(update={"oracle": oracle})
        with pytest.raises(OracleError, match=rf"the oracle '{oracle}' does not choose"):
            oracle_exits(config, *random_scores(1), MASK)
    for halting in ("none", "poisson"):
        config = tiny_config("exits.halting=geometric").exits.model_copy(update={"halting": halting})
        with pytest.raises(
            OracleError, match=rf"there is no oracle for the halting module '{halting}'; there is one for sequence"
        ):
            oracle_exits(config, *random_scores(1), MASK)


def test_a_score_that_is_not_a_number_is_refused_with_its_exit_and_place() -> None:
    likelihoods, _ = random_scores(7)
    likelihoods[2, 2, 4] = float("nan")
    with pytest.raises(
        OracleError, match=r"the score of exit 3 at \[2, 4\] is not a number, so no exit can be called the best"
    ) as caught:
        token_oracle(likelihoods, MASK, exit_penalty=0.1, kernel_width=0.0)
    assert isinstance(caught.value, UsageError)
    assert caught.value.exit_code == 2
    with pytest.raises(OracleError, match=r"the score of exit 3 at \[2, 0\] is not a number"):
        token_oracle(likelihoods, MASK, exit_penalty=0.1, kernel_width=2.0)
    with pytest.raises(OracleError, match=r"the score of exit 3 at \[2\] is not a number"):
        sequence_oracle(likelihoods, MASK, exit_penalty=0.1)


def test_a_negative_penalty_or_kernel_width_is_refused() -> None:
    likelihoods, correct = random_scores(8)
    with pytest.raises(
        UsageError, match=r"exits.exit_penalty = -0.1 must not be negative; 0 asks for the best exit at any cost"
    ):
        sequence_oracle(correct, MASK, exit_penalty=-0.1)
    with pytest.raises(UsageError, match=r"exits.kernel_width = -2.0 must not be negative; 0 looks at the token alone"):
        token_oracle(likelihoods, MASK, exit_penalty=0.1, kernel_width=-2.0)
