"""The values that the paper prints: tables 1 to 3, and the points that its text states (Elbayad et
al., ICLR 2020)."""

from dataclasses import dataclass

from anydepth.experiments.records import Split

PAPER = "Depth-Adaptive Transformer (Elbayad, Gu, Grave and Auli, ICLR 2020)"
BLOCKS = 6
# Written by their numbers, because they look like Latin letters.
GAMMA, SIGMA = "\u03b3", "\u03c3"


@dataclass(frozen=True)
class PublishedRow:
    """BLEU with a uniformly drawn exit, with fixed exits 1..6, and the average over these, as
    printed."""

    label: str
    uniform: float | None
    fixed: tuple[float, ...]
    average: float


@dataclass(frozen=True)
class PublishedTable:
    """A table by the names of the variants that its rows are."""

    name: str
    title: str
    experiment: str
    split: Split
    rows: dict[str, PublishedRow]


ALIGNED = "aligned"
CONTINUED = "aligned-continued"  # the control of the halting runs, which the paper does not have
BASELINE = "baseline"

_BASELINE_VALID = PublishedRow("Baseline", None, (34.2, 35.3, 35.6, 35.7, 35.6, 35.9), 35.4)
_BASELINE_TEST = PublishedRow("Baseline", None, (33.7, 34.6, 34.6, 34.6, 34.6, 34.8), 34.5)
_ALIGNED_VALID = (35.5, (34.1, 35.5, 35.8, 36.1, 36.1, 36.2), 35.6)
_ALIGNED_TEST = (34.4, (33.2, 34.4, 34.8, 34.9, 35.0, 34.9), 34.5)

TABLE_1 = PublishedTable(
    "table-1",
    "Table 1, valid: aligned and mixed training",
    "table1",
    "valid",
    {
        BASELINE: _BASELINE_VALID,
        ALIGNED: PublishedRow("Aligned (ω = 1)", *_ALIGNED_VALID),
        "mixed-1": PublishedRow("Mixed, M = 1", 34.1, (32.9, 34.3, 34.5, 34.5, 34.6, 34.5), 34.2),
        "mixed-3": PublishedRow("Mixed, M = 3", 35.1, (33.9, 35.2, 35.4, 35.5, 35.5, 35.5), 35.2),
        "mixed-6": PublishedRow("Mixed, M = 6", 35.3, (34.2, 35.4, 35.8, 35.9, 35.8, 35.9), 35.5),
    },
)
TABLE_2_VALID = PublishedTable(
    "table-2-valid",
    "Table 2, valid: weights ω of the exits' losses",
    "table2",
    "valid",
    {
        BASELINE: _BASELINE_VALID,
        ALIGNED: PublishedRow("ω = 1", *_ALIGNED_VALID),
        "omega-n": PublishedRow("ω = n", 35.3, (32.2, 35.0, 35.8, 36.0, 36.2, 36.3), 35.2),
        "omega-sqrt-n": PublishedRow("ω = √n", 35.4, (33.3, 35.2, 35.8, 35.9, 36.1, 36.1), 35.4),
        "omega-inverse-sqrt-n": PublishedRow("ω = 1/√n", 35.6, (34.5, 35.4, 35.7, 35.8, 35.8, 35.9), 35.5),
        "omega-inverse-n": PublishedRow("ω = 1/n", 35.3, (34.7, 35.3, 35.5, 35.7, 35.8, 35.8), 35.5),
    },
)
TABLE_2_TEST = PublishedTable(
    "table-2-test",
    "Table 2, test: weights ω of the exits' losses",
    "table2",
    "test",
    {
        BASELINE: _BASELINE_TEST,
        ALIGNED: PublishedRow("ω = 1", *_ALIGNED_TEST),
        "omega-n": PublishedRow("ω = n", 34.2, (31.4, 33.8, 34.7, 34.8, 34.8, 34.9), 34.1),
        "omega-sqrt-n": PublishedRow("ω = √n", 34.4, (32.5, 34.1, 34.8, 34.9, 35.0, 35.1), 34.4),
        "omega-inverse-sqrt-n": PublishedRow("ω = 1/√n", 34.6, (33.7, 34.3, 34.6, 34.8, 34.8, 34.9), 34.5),
        "omega-inverse-n": PublishedRow("ω = 1/n", 34.2, (33.8, 34.3, 34.5, 34.6, 34.7, 34.7), 34.4),
    },
)
TABLE_3_VALID = PublishedTable(
    "table-3-valid",
    f"Table 3, valid: gradient scaling {GAMMA}",
    "table3",
    "valid",
    {
        BASELINE: _BASELINE_VALID,
        ALIGNED: PublishedRow("no scaling", *_ALIGNED_VALID),
        "gamma-0.3": PublishedRow(f"{GAMMA} = 0.3", 35.1, (33.7, 34.7, 35.3, 35.7, 35.8, 36.0), 35.2),
        "gamma-0.5": PublishedRow(f"{GAMMA} = 0.5", 35.4, (34.8, 35.4, 35.6, 35.6, 35.7, 35.6), 35.4),
        "gamma-0.7": PublishedRow(f"{GAMMA} = 0.7", 34.9, (34.6, 35.1, 35.1, 35.2, 35.4, 35.3), 35.1),
        "gamma-0.9": PublishedRow(f"{GAMMA} = 0.9", 34.9, (34.8, 35.3, 35.3, 35.3, 35.4, 35.5), 35.3),
        "gamma-1.1": PublishedRow(f"{GAMMA} = 1.1", 35.1, (34.9, 35.2, 35.3, 35.3, 35.3, 35.3), 35.2),
    },
)
TABLE_3_TEST = PublishedTable(
    "table-3-test",
    f"Table 3, test: gradient scaling {GAMMA}",
    "table3",
    "test",
    {
        BASELINE: _BASELINE_TEST,
        ALIGNED: PublishedRow("no scaling", *_ALIGNED_TEST),
        "gamma-0.3": PublishedRow(f"{GAMMA} = 0.3", 34.2, (32.8, 33.9, 34.3, 34.6, 34.8, 35.0), 34.2),
        "gamma-0.5": PublishedRow(f"{GAMMA} = 0.5", 34.5, (33.8, 34.2, 34.6, 34.5, 34.7, 34.7), 34.6),
        "gamma-0.7": PublishedRow(f"{GAMMA} = 0.7", 34.0, (33.7, 34.2, 34.3, 34.3, 34.3, 34.3), 34.2),
        "gamma-0.9": PublishedRow(f"{GAMMA} = 0.9", 34.1, (34.0, 34.2, 34.3, 34.4, 34.4, 34.4), 34.3),
        "gamma-1.1": PublishedRow(f"{GAMMA} = 1.1", 34.2, (34.0, 34.3, 34.3, 34.3, 34.3, 34.2), 34.2),
    },
)
TABLES = (TABLE_1, TABLE_2_VALID, TABLE_2_TEST, TABLE_3_VALID, TABLE_3_TEST)


@dataclass(frozen=True)
class StatedPoint:
    """A point of a figure that the paper's text gives in numbers, as printed."""

    system: str
    average_exit: str
    bleu: str


FIGURE_3_POINTS = (
    StatedPoint(f"Tok-C geometric, λ = 0.1, {SIGMA} = 0", "1.42", "34.73"),
    StatedPoint("Tok-C geometric, best comparable", "1.97", "34.99"),
    StatedPoint("Aligned, its best exit", "5", "34.95"),
    StatedPoint("Baseline with N = 2", "2", "about 34.35"),
    StatedPoint("Aligned at exit 2", "2", "about 34.35"),
)
FIGURE_5_POINTS = (
    StatedPoint("Tok-LL geometric, as good as the best baseline (N = 6)", "2.40", "43.4"),
    StatedPoint("Tok-LL geometric, as good as the best aligned exit", "3.25", "43.6"),
    StatedPoint("Confidence, as good as the best baseline (N = 6)", "2.5", "43.4"),
)
COST = "about 1%"
