"""Token figures: the bars are the recorded exits and probabilities, whatever the sentence."""

import math
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest
from figures.pictures import box_of, height_of, points_of, tips_of, words_of
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from anydepth.errors import UsageError
from anydepth.figures.sentence import TOKENS_IN_A_ROW, plot_tokens, tokens_svg
from anydepth.figures.style import exit_colours, save_figure
from anydepth.inference.translator import Translation

OTHER_SCRIPTS = [
    "\u2581ж\u0443к",
    "\u2581\u0643\u062a\u0627\u0628",
    "中文",
    "हिन्दी",
    "\u2581",
    "\ud800",
    "<0xE2>",
    "</s>",
]
ODD_PIECES = [*OTHER_SCRIPTS, "$x$", "$\\frac$", "a\nb", "_", "&<>", "--", "\x00"]


def translated(count: int, *, blocks: int = 6) -> Translation:
    """A translation of `count` tokens with exits and probabilities that all differ from their
    neighbours'."""
    return Translation(
        tokens=[*(f"\u2581w{t}" for t in range(count - 1)), "</s>"],
        exits=[1 + t % blocks for t in range(count)],
        scores=[math.log((t + 1) / (count + 1)) for t in range(count)],
    )


def heights(figure: Figure, label: str) -> list[float]:
    """The bar heights of one kind, row after row."""
    return [
        bar.get_height()
        for axis in figure.axes
        for bars in axis.containers
        if bars.get_label() == label
        for bar in bars
    ]


def rows(figure: Figure) -> list[Axes]:
    return [axis for axis in figure.axes if axis.get_ylabel() == "exit"]


def tick_labels(figure: Figure) -> list[str]:
    return [label.get_text() for axis in rows(figure) for label in axis.get_xticklabels()]


@pytest.mark.parametrize("count", [1, 2, TOKENS_IN_A_ROW, TOKENS_IN_A_ROW + 1, 60])
def test_every_token_has_a_bar_for_its_exit_and_one_for_its_probability(count: int) -> None:
    translation = translated(count)
    figure = plot_tokens(translation, blocks=6)
    assert heights(figure, "exit") == translation.exits
    assert heights(figure, "probability") == pytest.approx([(t + 1) / (count + 1) for t in range(count)])
    assert tick_labels(figure) == [piece.replace("\u2581", "\u2423") for piece in translation.tokens]


def test_a_bar_has_the_colour_of_its_exit() -> None:
    translation = translated(7)
    (exits,) = (bars for bars in rows(plot_tokens(translation, blocks=6))[0].containers if bars.get_label() == "exit")
    assert [bar.get_facecolor() for bar in exits] == [exit_colours(6)[left - 1] for left in translation.exits]


def test_long_sentences_are_shared_evenly_among_rows_of_one_scale() -> None:
    axes = rows(plot_tokens(translated(2 * TOKENS_IN_A_ROW + 2), blocks=6))
    assert [len(axis.get_xticks()) for axis in axes] == [14, 14, 14]
    assert len({axis.get_xlim() for axis in axes}) == 1


def test_full_depth_and_certainty_are_equally_high() -> None:
    left, right = plot_tokens(translated(3), blocks=6).axes
    assert left.get_ylim()[1] / 6 == pytest.approx(right.get_ylim()[1])
    assert left.get_ylim()[0] == right.get_ylim()[0] == 0


@pytest.mark.parametrize(("blocks", "ticks"), [(1, [1]), (4, [1, 2, 3, 4]), (12, [2, 4, 6, 8, 10, 12])])
def test_the_left_axis_counts_exits_from_1(blocks: int, ticks: list[int]) -> None:
    assert rows(plot_tokens(translated(5, blocks=blocks), blocks=blocks))[0].get_yticks().tolist() == ticks


def test_the_title_has_the_average_exit_and_the_source_stands_below() -> None:
    translation = Translation(tokens=["a", "b", "</s>"], exits=[1, 1, 6], scores=[-0.5, -0.1, 0.0])
    figure = plot_tokens(translation, blocks=6, source="ein  haus")
    assert figure.get_suptitle() == "Average exit 2.67 of 6, 3 tokens"
    assert figure.get_supxlabel() == "Source: ein haus"
    assert plot_tokens(translation, blocks=6).get_supxlabel() == ""
    assert plot_tokens(translated(1), blocks=6).get_suptitle() == "Average exit 1.00 of 6, 1 token"


def test_any_script_can_be_drawn_and_saved(tmp_path: Path) -> None:
    count = len(ODD_PIECES)
    translation = Translation(tokens=ODD_PIECES, exits=[2] * count, scores=[-0.5] * count)
    for name in ("one.svg", "two.svg"):
        save_figure(plot_tokens(translation, blocks=3, source="".join(ODD_PIECES) * 5), tmp_path / name)
    ElementTree.parse(tmp_path / "one.svg")
    assert (tmp_path / "one.svg").read_bytes() == (tmp_path / "two.svg").read_bytes()


def test_no_label_is_cut_off_by_the_edge_of_the_figure() -> None:
    translation = Translation(tokens=["\u2581incomprehensibilities"] * 33, exits=[1] * 33, scores=[-1.0] * 33)
    figure = plot_tokens(translation, blocks=6, source="many words and no end to them " * 12)
    figure.draw_without_rendering()
    texts = [label for axis in rows(figure) for label in axis.get_xticklabels()] + [
        text for text in figure.texts if text.get_text()
    ]
    for text in texts:
        box = text.get_window_extent()
        assert box.x0 >= 0 and box.y0 >= 0 and box.x1 <= figure.bbox.x1 and box.y1 <= figure.bbox.y1, text


def test_a_log_probability_a_little_above_zero_is_certainty() -> None:
    assert heights(plot_tokens(Translation(tokens=["</s>"], exits=[1], scores=[1e-6]), blocks=1), "probability") == [
        1.0
    ]


def test_what_cannot_be_drawn_is_refused() -> None:
    with pytest.raises(UsageError, match="at least one token but the translation is empty; choose a line"):
        plot_tokens(Translation(), blocks=6)
    with pytest.raises(UsageError, match="2 tokens, 1 exits, 2 scores; give it as it was made"):
        plot_tokens(Translation(tokens=["a", "b"], exits=[1], scores=[0.0, 0.0]), blocks=6)
    with pytest.raises(UsageError, match="between 1 and blocks = 4 but one is 5; give the depth"):
        plot_tokens(translated(6), blocks=4)
    with pytest.raises(UsageError, match="blocks = 0 but a decoder has at least 1 block"):
        plot_tokens(translated(2), blocks=0)
    with pytest.raises(UsageError, match=r"log-probabilities, at most 0, but one is 0\.9; give Translation\.scores"):
        plot_tokens(Translation(tokens=["a", "b"], exits=[1, 1], scores=[-1.0, 0.9]), blocks=6)
    with pytest.raises(UsageError, match="one is nan"):
        plot_tokens(Translation(tokens=["a"], exits=[1], scores=[math.nan]), blocks=6)


def test_bars_of_a_page_are_as_high_as_exit_and_probability_and_tell_both() -> None:
    svg = tokens_svg(["\u2581a", "<&>"], [1, 4], [0.5, 0.25], blocks=4, name="bars", description="bars")
    tips = ["\u2423a\nexit 1 of 4\nprobability 0.500", "<&>\nexit 4 of 4\nprobability 0.250"]
    assert tips_of(svg) == tips * 2
    heights = [height_of(point) for point in points_of(svg)]
    assert [height / heights[1] for height in heights] == pytest.approx([0.25, 1.0, 0.5, 0.25], abs=0.001)
    assert {"\u2423a", "<&>"} <= set(words_of(svg))


def test_a_long_sentence_of_a_page_goes_on_in_further_rows_within_the_picture() -> None:
    svg = tokens_svg([f"\u2581wort{t}" for t in range(50)], [2] * 50, [1.0] * 50, blocks=2, name="b", description="")
    _, _, width, height = map(float, ElementTree.fromstring(svg).get("viewBox", "").split())
    boxes = [box_of(point) for point in points_of(svg)]
    assert len(boxes) == 100 and len({round(bottom) for _, _, _, bottom in boxes}) == 3
    assert all(0 < left < right < width and 0 < top < bottom < height for left, top, right, bottom in boxes)


def test_a_page_shows_pieces_of_any_script_as_they_are_and_without_controls() -> None:
    count = len(ODD_PIECES)
    svg = tokens_svg(ODD_PIECES, [2] * count, [0.5] * count, blocks=3, name="odd", description="\x00")
    assert {"\u2423\u0643\u062a\u0627\u0628", "中文", "हिन्दी", "$\\frac$", "a b", "&<>"} <= set(words_of(svg))
    assert len(points_of(svg)) == 2 * count
