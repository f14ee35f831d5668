"""Exits at the start and the end of sentences, against a loop over exact fractions."""

import random
from fractions import Fraction
from pathlib import Path

import pytest
from figures.pictures import height_of, points_of, tips_of, words_of

from anydepth.errors import UsageError
from anydepth.figures.positions import mean_exit, plot_positions, position_histograms, positions_svg
from anydepth.figures.style import save_figure

BLOCKS = 5


def some_exits(*, sentences: int) -> list[list[int]]:
    randomness = random.Random(4)
    return [[randomness.randint(1, BLOCKS) for _ in range(randomness.randint(0, 47))] for _ in range(sentences)]


def slow_histograms(exits: list[list[int]]) -> tuple[list[float], list[float]]:
    """Percentages with rpos as a fraction, one comparison a token."""
    starts, ends = [0] * BLOCKS, [0] * BLOCKS
    for sentence in exits:
        for t in range(1, len(sentence) + 1):
            if len(sentence) > 1:
                rpos = Fraction(t - 1, len(sentence) - 1)
                starts[sentence[t - 1] - 1] += rpos < Fraction(1, 10)
                ends[sentence[t - 1] - 1] += rpos > Fraction(9, 10)
    return [100 * count / sum(starts) for count in starts], [100 * count / sum(ends) for count in ends]


def test_histograms_equal_a_loop_over_fractions() -> None:
    exits = some_exits(sentences=300)
    assert position_histograms(exits, blocks=BLOCKS) == slow_histograms(exits)


@pytest.mark.parametrize(
    ("length", "tokens"), [(2, 1), (9, 1), (10, 1), (11, 1), (12, 2), (20, 2), (21, 2), (22, 3), (30, 3), (100, 10)]
)
def test_start_and_end_are_a_tenth_of_the_tokens_each(length: int, tokens: int) -> None:
    """The first `tokens` leave at 1, the last at 3 and those between at 2, so that one more or less
    would show."""
    sentence = [1] * tokens + [2] * (length - 2 * tokens) + [3] * tokens
    assert position_histograms([sentence], blocks=3) == ([100, 0, 0], [0, 0, 100])
    one_more = [1] * tokens + [2] * (length - tokens)
    if length > 2 * tokens:
        one_more[tokens - 1] = 2
        assert position_histograms([one_more], blocks=3)[0][0] == pytest.approx(100 * (tokens - 1) / tokens)


def test_every_token_counts_alike_and_not_every_sentence() -> None:
    start, _ = position_histograms([[1] * 30, [2] * 10], blocks=2)
    assert start == [75, 25]


def test_a_sentence_of_one_token_is_neither_start_nor_end() -> None:
    assert (
        position_histograms([[4], [], [1, 2]], blocks=4)
        == position_histograms([[1, 2]], blocks=4)
        == ([100, 0, 0, 0], [0, 100, 0, 0])
    )


def test_the_bars_are_the_histograms_and_the_legend_has_their_means() -> None:
    exits = some_exits(sentences=40)
    start, end = slow_histograms(exits)
    figure = plot_positions(exits, blocks=BLOCKS)
    bars = figure.axes[0].containers
    assert [[bar.get_height() for bar in side] for side in bars] == [start, end]
    centres = [[bar.get_x() + bar.get_width() / 2 for bar in side] for side in bars]
    assert all(left < n < right for n, left, right in zip(range(1, BLOCKS + 1), *centres, strict=True))
    assert [text.get_text() for text in figure.legends[0].get_texts()] == [
        f"start (rpos < 0.1): mean exit {mean_exit(start):.2f}",
        f"end (rpos > 0.9): mean exit {mean_exit(end):.2f}",
    ]


def test_the_mean_exit_is_that_of_the_tokens() -> None:
    assert mean_exit([50.0, 25.0, 25.0]) == (1 + 1 + 2 + 3) / 4


@pytest.mark.parametrize("blocks", [1, 12])
def test_one_block_and_many_can_be_saved_with_the_same_bytes_twice(tmp_path: Path, blocks: int) -> None:
    for name in ("one.svg", "two.svg"):
        save_figure(plot_positions([[blocks] * 5, [1] * 3], blocks=blocks), tmp_path / name)
    assert (tmp_path / "one.svg").read_bytes() == (tmp_path / "two.svg").read_bytes()


def test_sentences_without_a_start_are_refused() -> None:
    for exits in ([], [[], [3]]):
        with pytest.raises(
            UsageError, match=f"two tokens or more but none of {len(exits)} has; translate longer lines"
        ):
            position_histograms(exits, blocks=3)
    with pytest.raises(UsageError, match="between 1 and blocks = 3 but one is 0"):
        plot_positions([[1, 0]], blocks=3)


def test_a_page_shows_every_share_of_both_ends() -> None:
    svg = positions_svg([10.0, 20.0, 70.0], [60.0, 40.0, 0.0], name="one", description="positions")
    tips = tips_of(svg)
    assert tips[0] == "start (rpos < 0.1)\nexit 1\n10.0% of these tokens"
    assert tips[-1] == "end (rpos > 0.9)\nexit 3\n0.0% of these tokens"
    heights = [height_of(point) for point in points_of(svg)]
    assert [height / heights[0] for height in heights] == pytest.approx([1, 2, 7, 6, 4, 0], rel=0.01)
    assert {"start (rpos < 0.1): mean exit 2.60", "end (rpos > 0.9): mean exit 1.40"} <= set(words_of(svg))
