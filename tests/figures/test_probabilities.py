"""Joint histogram of probabilities and exits, against a loop over all cells."""

import math
import random
from pathlib import Path

import numpy as np
import pytest
from figures.pictures import box_of, points_of, tips_of, words_of
from matplotlib.collections import QuadMesh

from anydepth.errors import UsageError
from anydepth.figures.probabilities import joint_histogram, percent_label, plot_scores, scores_svg
from anydepth.figures.style import save_figure

BLOCKS = 4


def some_records(*, sentences: int) -> tuple[list[list[int]], list[list[float]]]:
    """Exits and log-probabilities of sentences of 0 to 30 tokens, deeper where less likely."""
    randomness = random.Random(2)
    lengths = [randomness.randint(0, 30) for _ in range(sentences)]
    scores = [[math.log(1 - 0.999 * randomness.random() ** 3) for _ in range(length)] for length in lengths]
    exits = [
        [min(BLOCKS, 1 + int(randomness.random() * 4 * (1.3 - math.exp(score)))) for score in sentence]
        for sentence in scores
    ]
    return exits, scores


@pytest.mark.parametrize("bins", [1, 7, 10, 20])
def test_the_histogram_equals_a_loop_over_all_cells(bins: int) -> None:
    exits, scores = some_records(sentences=30)
    counts = joint_histogram(exits, scores, blocks=BLOCKS, bins=bins)
    tokens = [
        (n, math.exp(score)) for ns, row in zip(exits, scores, strict=True) for n, score in zip(ns, row, strict=True)
    ]
    for n in range(1, BLOCKS + 1):
        for place in range(bins):
            low, high = place / bins, (place + 1) / bins
            assert counts[n - 1, place] == sum(left == n and low <= score < high for left, score in tokens)
    assert counts.sum() == len(tokens)


def test_certainty_falls_into_the_last_part_and_an_edge_into_the_part_above() -> None:
    exits, scores = [[1, 2], [2, 1]], [[0.0, 1e-7], [math.log(0.5), -math.inf]]
    assert joint_histogram(exits, scores, blocks=3, bins=4).tolist() == [[1, 0, 0, 1], [0, 0, 1, 1], [0, 0, 0, 0]]


def test_colours_numbers_and_sums_are_those_of_the_histogram() -> None:
    exits, scores = some_records(sentences=25)
    counts = joint_histogram(exits, scores, blocks=BLOCKS)
    shares = 100 * counts / counts.sum()
    above, _, centre, beside = plot_scores(exits, scores, blocks=BLOCKS).axes
    (mesh,) = (each for each in centre.collections if isinstance(each, QuadMesh))
    drawn = np.ma.getdata(mesh.get_array()), np.ma.getmaskarray(mesh.get_array())
    assert np.array_equal(drawn[0][~drawn[1]], shares[shares > 0])
    assert np.array_equal(drawn[1], shares == 0)
    written = {
        (round(text.get_position()[1]), int(text.get_position()[0] * 10)): text.get_text() for text in centre.texts
    }
    assert written == {
        (n + 1, place): percent_label(shares[n, place]) for n, place in zip(*np.nonzero(counts), strict=True)
    }
    assert [bar.get_height() for bar in above.patches] == pytest.approx(shares.sum(axis=0))
    assert [bar.get_width() for bar in beside.patches] == pytest.approx(shares.sum(axis=1))


def test_a_rare_cell_is_told_from_an_empty_one() -> None:
    exits, scores = [[1] * 10_000, [2]], [[-0.01] * 10_000, [-3.0]]
    (mesh,) = plot_scores(exits, scores, blocks=2).axes[2].collections
    assert mesh.to_rgba(100 / 10_001)[0] < 0.95, "white would have 1.0 of red"


@pytest.mark.parametrize(
    ("share", "label"),
    [(100.0, "100"), (9.96, "10"), (9.94, "9.9"), (4.23, "4.2"), (0.1, "0.1"), (0.099, "<0.1"), (1e-6, "<0.1")],
)
def test_percentages_are_short(share: float, label: str) -> None:
    assert percent_label(share) == label


@pytest.mark.parametrize(("blocks", "bins"), [(1, 10), (12, 20), (3, 7)])
def test_any_size_down_to_one_token_can_be_saved_with_the_same_bytes_twice(
    tmp_path: Path, blocks: int, bins: int
) -> None:
    for name in ("one.svg", "two.svg"):
        save_figure(plot_scores([[1]], [[-0.2]], blocks=blocks, bins=bins), tmp_path / name)
    assert (tmp_path / "one.svg").read_bytes() == (tmp_path / "two.svg").read_bytes()


def test_records_that_do_not_fit_are_refused() -> None:
    with pytest.raises(
        UsageError, match="3 exits in 2 sentences and 2 scores in 2; give those of the same translations"
    ):
        joint_histogram([[1, 2], [1]], [[0.0], [0.0]], blocks=3)
    with pytest.raises(UsageError, match="2 exits in 2 sentences and 2 scores in 1"):
        joint_histogram([[1], [2]], [[0.0, 0.0]], blocks=3)
    with pytest.raises(UsageError, match="between 1 and blocks = 3 but one is 4"):
        joint_histogram([[4]], [[0.0]], blocks=3)
    with pytest.raises(UsageError, match=r"log-probabilities, at most 0, but one is 0\.5"):
        joint_histogram([[1]], [[0.5]], blocks=3)
    with pytest.raises(UsageError, match=r"bins = 0 but \[0, 1\] is cut into at least 1 part; try 10"):
        joint_histogram([[1]], [[0.0]], blocks=3, bins=0)
    with pytest.raises(UsageError, match="at least one token but the translations are empty"):
        plot_scores([[], []], [[], []], blocks=3)


def test_a_page_has_a_cell_for_each_exit_and_bin_that_tells_its_count() -> None:
    svg = scores_svg([[0, 0, 10, 60], [5, 5, 20, 0]], name="cells", description="scores")
    assert tips_of(svg)[:4] == [
        "exit 1\nprobability 0 to 0.25\n0 tokens, 0.00%",
        "exit 1\nprobability 0.25 to 0.5\n0 tokens, 0.00%",
        "exit 1\nprobability 0.5 to 0.75\n10 tokens, 10.00%",
        "exit 1\nprobability 0.75 to 1\n60 tokens, 60.00%",
    ]
    assert tips_of(svg)[4] == "exit 2\nprobability 0 to 0.25\n5 tokens, 5.00%" and len(tips_of(svg)) == 8
    boxes = [box_of(cell) for cell in points_of(svg)]
    assert boxes[0][0] == boxes[4][0] < boxes[1][0] == boxes[5][0], "a column has one place"
    assert boxes[0][3] == boxes[3][3] > boxes[4][3], "the first exit is the lowest row"
    words = words_of(svg)
    assert {"60", "5.0", "70.0%", "30.0%", "of all"} <= set(words) and words.count("5.0") == 2


def test_a_filled_cell_of_a_page_has_a_colour_and_an_empty_one_has_none() -> None:
    filled, empty = points_of(scores_svg([[3, 0]], name="cells", description="scores"))
    assert "fill: none" in (empty.find("path").get("style") or "")  # type: ignore[union-attr]
    assert "fill: #08306b" in (filled.find("path").get("style") or "")  # type: ignore[union-attr]
