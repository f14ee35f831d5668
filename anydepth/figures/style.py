"""The look of all pictures: colours for the colour-blind and for grey prints, fonts for a paper's
column, and the files."""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import matplotlib
import matplotlib.style
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure

from anydepth.errors import UsageError
from anydepth.figures.glyphs import font_families
from anydepth.files.atomic import replacing

COLUMN_WIDTH = 3.4  # inches
TEXT_WIDTH = 6.0
PIXELS_PER_INCH = 200
# SVG and PDF would otherwise hold the time of writing.
METADATA: dict[str, dict[str, Any]] = {".png": {}, ".svg": {"Date": None}, ".pdf": {"CreationDate": None}}

INK = "#222222"
PALE = "#DADADA"
GRID = "#DDDDDD"
EXIT_COLOUR_MAP = "viridis"
LIGHTEST_EXIT = 0.88
START_COLOUR, END_COLOUR = "#0072B2", "#E69F00"


# The sizes at which matplotlib's markers look equally large.
MARKER_SIZES = {"o": 4.5, "X": 5.5, "D": 4.0, "^": 5.0, "v": 5.0, "s": 4.2, "P": 5.5, "h": 5.0, "*": 6.5, "d": 5.0}


@dataclass(frozen=True)
class SeriesStyle:
    """How a series of points looks; marker and filling tell it from others in prints without
    colour."""

    colour: str
    marker: str
    fill: Literal["full", "none", "left", "top"] = "full"
    dashes: Literal["-", "--", ":", "-."] = "-"


# Okabe and Ito's colours, black and grey; wine stands in for their yellow, which is lost on white.
# Each marker is used once.
FAMILY_STYLES = {
    "fixed": SeriesStyle("#000000", "o"),
    "uniform": SeriesStyle("#888888", "X"),
    "confidence": SeriesStyle("#E69F00", "D"),
    "geometric": SeriesStyle("#0072B2", "^"),
    "margin": SeriesStyle("#56B4E9", "v"),
    "similarity": SeriesStyle("#009E73", "s"),
    "shortlist": SeriesStyle("#882255", "P"),
    "sequence": SeriesStyle("#CC79A7", "h"),
    "multinomial": SeriesStyle("#D55E00", "*"),
}
OTHER_STYLE = SeriesStyle("#666633", "d")


def drawing() -> AbstractContextManager[None]:
    """A context for making and saving figures: matplotlib's defaults, whatever the user's own
    settings, and this scheme."""
    return matplotlib.style.context(["default", _settings()])


def _settings() -> dict[str, Any]:
    return {
        "font.family": list(font_families()),
        "font.size": 8,
        "axes.titlesize": 8,
        "axes.labelsize": 8,
        "figure.titlesize": 8,
        "figure.labelsize": 7,
        "xtick.labelsize": 7,
        "ytick.labelsize": 7,
        "legend.fontsize": 7,
        "legend.frameon": False,
        "text.color": INK,
        "text.parse_math": False,  # a dollar sign in a token or a folder's name is a dollar sign
        "axes.labelcolor": INK,
        "axes.edgecolor": INK,
        "axes.linewidth": 0.6,
        "axes.axisbelow": True,
        "axes.spines.top": False,
        "grid.color": GRID,
        "grid.linewidth": 0.5,
        "hatch.linewidth": 0.6,
        "patch.edgecolor": INK,
        "patch.force_edgecolor": True,
        "patch.linewidth": 0.4,
        "xtick.color": INK,
        "ytick.color": INK,
        "svg.fonttype": "path",  # the same picture wherever it is opened, whatever fonts are there
        "svg.hashsalt": "anydepth",
        "pdf.fonttype": 42,
    }


def exit_colours(blocks: int) -> list[tuple[float, float, float, float]]:
    """Colours (RGBA) of exits 1..N, from light for shallow to dark for deep, so that a grey print
    keeps the order."""
    colour_map = matplotlib.colormaps[EXIT_COLOUR_MAP]
    steps = max(blocks - 1, 1)
    return [colour_map(LIGHTEST_EXIT * (1 - n / steps)) for n in range(blocks)]


def luminance(colour: Sequence[float]) -> float:
    """The brightness of an RGB or RGBA colour, from 0 for black to 1 for white (WCAG 2, relative
    luminance)."""
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in colour[:3]]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def text_colour(background: Sequence[float]) -> str:
    """White on dark and the colour of ink on bright backgrounds, whichever has the greater
    contrast."""
    bright, ink = luminance(background) + 0.05, luminance(to_rgb(INK)) + 0.05
    return "white" if 1.05 / bright > bright / ink else INK


def family_style(family: str) -> SeriesStyle:
    """The style of a family of policies, such as "geometric"; families that the scheme does not
    know share one."""
    return FAMILY_STYLES.get(family, OTHER_STYLE)


def check_figure_path(path: Path) -> None:
    """Refuses a place that no picture can be written to."""
    if path.suffix.lower() not in METADATA:
        raise UsageError(
            f"a figure is written as .png, .svg or .pdf, but {path} ends in {path.suffix or 'no suffix'}; rename it"
        )
    if not path.parent.is_dir():
        raise UsageError(f"cannot write {path}: there is no folder {path.parent}; create it or choose another place")


def save_figure(figure: Figure, path: Path) -> None:
    """Writes `figure` to `path`, whole or not at all, as the suffix says: PNG, SVG or PDF. Same
    figure, same bytes."""
    check_figure_path(path)
    suffix = path.suffix.lower()
    with drawing(), replacing(path) as temporary:
        figure.savefig(temporary, format=suffix[1:], dpi=PIXELS_PER_INCH, metadata=METADATA[suffix])
