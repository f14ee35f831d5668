"""The verb `anydepth bench`: full depth and early exits against the clock."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from anydepth.cli.options import (
    AverageExit,
    BleuDrop,
    Flops,
    PolicyHelp,
    Settings,
    TimeShare,
    examples,
    say,
    settings_file,
    tell_if_unfinished,
    wish_of,
)
from anydepth.errors import UsageError
from anydepth.inference.engines.names import ENGINE_NOTES, enumerated
from anydepth.limits import LARGEST_SEED, MOST_BEAM, MOST_LENGTH, MOST_PIECES, MOST_ROUNDS, MOST_THREADS, MOST_UPDATES

if TYPE_CHECKING:
    from anydepth.bench.benchmark import Bench
    from anydepth.bench.field import BenchSettings
    from anydepth.bench.shape import Sizes
    from anydepth.runs.operating_points import Wish

EXAMPLES = examples(
    "anydepth bench runs/demo/exits --test runs/demo/corpus/test --average-exit 2 --picture bench.png",
    "anydepth bench runs/demo/exits --test runs/demo/corpus/test --average-exit 2 --shape iwslt14_de_en "
    "--batch 1 --batch 32",
    "anydepth bench runs/demo/exits --test runs/demo/corpus/test --each-exit --each-point --batch 1 --curve curve.png",
    "anydepth bench runs/demo/exits --test runs/demo/corpus/test --policy confidence:0.9 --batch 1 --beam 1 --phases",
    "anydepth bench --shape iwslt14_de_en --exits-histogram 0.6,0.2,0.1,0.05,0.03,0.02",
    "anydepth bench runs/demo/exits --test runs/demo/corpus/test --against ctranslate2  # needs pip "
    "install 'anydepth[ctranslate2]'",
    "anydepth bench runs/fast --test corpus/test --each-point --against ctranslate2 --against transformers "
    "--original opus-mt-de-en",
)

TimedRun = Annotated[Path | None, typer.Argument(metavar="RUN", help="A run directory; --shape can do without.")]
Test = Annotated[str | None, typer.Option(metavar="PREFIX", help="PREFIX.de and PREFIX.en, plain or .gz.")]
Against = Annotated[
    list[str] | None,
    typer.Option(
        metavar="ctranslate2|transformers",
        help="Compare with CTranslate2 at full depth, or for an adopted RUN with transformers; may be repeated.",
    ),
]
Original = Annotated[
    Path | None,
    typer.Option(
        metavar="DIR",
        help="The MarianMT folder that an adopted RUN came from, which rivals run. Default: what RUN has noted.",
    ),
]
Rival = Annotated[
    Path | None,
    typer.Option(
        metavar="RUN",
        help="CTranslate2 takes this run's model, such as a baseline of equal BLEU. Default: the same.",
    ),
]
Beside = Annotated[
    list[Path] | None,
    typer.Option(
        metavar="RUN",
        help="Another run with the same vocabulary, such as a shallow one, takes part at full depth; may be repeated.",
    ),
]
EachExit = Annotated[bool, typer.Option("--each-exit", help="Every fixed exit takes part.")]
EachPoint = Annotated[bool, typer.Option("--each-point", help="Every operating point of RUN takes part.")]
VocabularySetting = Annotated[
    str | None,
    typer.Option("--vocabulary", metavar="full|table[:K]|learned[:P]", help="Words to choose among. Default: RUN's."),
]
EngineHelp = enumerated(ENGINE_NOTES, "or")
Engines = Annotated[
    list[str] | None,
    typer.Option(help=f"{EngineHelp}; may be repeated. Default: the fastest at hand."),
]
Precision = Annotated[bool | None, typer.Option("--int8/--fp32", help="One precision alone. Default: both.")]
Policies = Annotated[
    list[str] | None, typer.Option(help=f"{PolicyHelp}; may be repeated. Full depth always takes part.")
]
Batches = Annotated[
    list[int] | None,
    typer.Option(max=MOST_ROUNDS, help="Sentences in a batch; may be repeated. Default: 1, 8 and 32."),
]
Beams = Annotated[
    list[int] | None, typer.Option(max=MOST_BEAM, help="Hypotheses to keep; may be repeated. Default: 1 and 5.")
]
Threads = Annotated[int, typer.Option(max=MOST_THREADS, help="Threads of every contestant.")]
Rounds = Annotated[int, typer.Option(max=MOST_ROUNDS, help="How often everything is timed, contestants in turn.")]
Sentences = Annotated[
    int | None,
    typer.Option(max=MOST_UPDATES, help="Sentences to translate. Default: all, or four of the largest batches."),
]
Shape = Annotated[
    Path | None,
    typer.Option(metavar="CONFIG", help="Time a model of this shape with random weights and forced exits."),
]
Vocab = Annotated[int, typer.Option(max=MOST_PIECES, help="Words of the --shape.")]
SourceLength = Annotated[
    int, typer.Option(max=MOST_LENGTH, help="Source tokens of the --shape, the end of the sentence included.")
]
WordsPerPiece = Annotated[
    int | None,
    typer.Option(
        max=MOST_PIECES,
        help="Also time the --shape with a made-up table that brings each source token so many words, and every "
        "sentence 50.",
    ),
]
OutputLength = Annotated[int, typer.Option(max=MOST_LENGTH, help="Output tokens of the --shape.")]
Histogram = Annotated[
    str | None,
    typer.Option(metavar="SHARE,...", help="Shares of the exits 1..N of the --shape. Default: those of RUN's policy."),
]
Seed = Annotated[
    int,
    typer.Option(
        min=0, max=LARGEST_SEED, help="Another seed draws other weights, sentences and exits for the --shape."
    ),
]
Phases = Annotated[
    bool, typer.Option("--phases", help="Also tell where the time of the native engine goes, in as many rounds again.")
]
Json = Annotated[bool, typer.Option("--json", help="Everything as one JSON object.")]
JsonFile = Annotated[Path | None, typer.Option(metavar="FILE", help="Also write the JSON to this file.")]
Picture = Annotated[Path | None, typer.Option(metavar="FILE", help="Also draw tokens/s: .png, .svg or .pdf.")]
Curve = Annotated[Path | None, typer.Option(metavar="FILE", help="Also draw BLEU against time: .png, .svg or .pdf.")]


def register(app: typer.Typer) -> None:
    app.command(epilog=EXAMPLES)(bench)


def bench(
    run: TimedRun = None,
    test: Test = None,
    against: Against = None,
    rival: Rival = None,
    original: Original = None,
    beside: Beside = None,
    engine: Engines = None,
    int8: Precision = None,
    policy: Policies = None,
    average_exit: AverageExit = None,
    flops: Flops = None,
    time: TimeShare = None,
    bleu_drop: BleuDrop = None,
    each_exit: EachExit = False,
    each_point: EachPoint = False,
    vocabulary: VocabularySetting = None,
    batch: Batches = None,
    beam: Beams = None,
    threads: Threads = 1,
    rounds: Rounds = 5,
    sentences: Sentences = None,
    shape: Shape = None,
    vocab: Vocab = 10_000,
    source_length: SourceLength = 23,
    output_length: OutputLength = 25,
    words_per_piece: WordsPerPiece = None,
    set_: Settings = None,
    exits_histogram: Histogram = None,
    seed: Seed = 1,
    phases: Phases = False,
    as_json: Json = False,
    to: JsonFile = None,
    picture: Picture = None,
    curve: Curve = None,
) -> None:
    """Time full depth and early exits, end to end and decoding alone, in rounds that all share."""
    from anydepth.bench.field import BenchSettings

    output = BenchOutput(as_json=as_json, to=to, picture=picture, curve=curve).checked(run, test)
    settings = BenchSettings(
        engines=chosen_engines(engine, run),
        precisions=chosen_precisions(int8),
        batches=tuple(batch or BenchSettings.batches),
        beams=tuple(beam or BenchSettings.beams),
        rounds=rounds,
        threads=threads,
        sentences=sentences,
        seed=seed,
        against=tuple(dict.fromkeys(against or ())),
        rival=rival,
        original=original,
        beside=tuple(beside or ()),
        vocabulary=vocabulary,
        has_phases=phases,
    )
    policies = named_policies(policy, each_exit=each_exit, each_point=each_point)
    subject = BenchSubject(run=run, test=test, policies=policies, wish=wish_of(average_exit, flops, bleu_drop, time))
    timed = timed_shape(shape, (vocab, source_length, output_length, words_per_piece), exits_histogram, set_ or [])
    output.write(measured_bench(timed, subject, settings))


@dataclass(frozen=True, kw_only=True)
class BenchSubject:
    """What is timed: a run on a test set, with policies or a wish; a shape can do without."""

    run: Path | None
    test: str | None
    policies: list[str]
    wish: "Wish"


@dataclass(frozen=True, kw_only=True)
class TimedShape:
    """A model that is timed without being trained: its settings with changes, its text, and how often
    each exit is taken if that is said."""

    config: Path
    sizes: "Sizes"
    histogram: str | None
    changes: list[str]


@dataclass(frozen=True, kw_only=True)
class BenchOutput:
    """Where the figures go: to standard output, and to files."""

    as_json: bool
    to: Path | None
    picture: Path | None
    curve: Path | None

    def checked(self, run: Path | None, test: str | None) -> "BenchOutput":
        """This, where its files can be written and would not be written over what is measured; says of
        an unfinished run that it is one."""
        from anydepth.evaluation.evaluate import check_output
        from anydepth.figures import style
        from anydepth.runs.run import Run

        if run is not None:
            tell_if_unfinished(run)
        for drawn in (self.picture, self.curve):
            if drawn is not None:
                style.check_figure_path(drawn)
        if self.to is not None and (self.to.is_dir() or not self.to.parent.is_dir()):
            raise UsageError(f"--to {self.to} must be a file in a folder that exists")
        for option, file in (("--to", self.to), ("--picture", self.picture), ("--curve", self.curve)):
            if file is not None and run is not None and test is not None:
                check_output(file, Run(run), test, option=option)
        return self

    def write(self, measured: "Bench") -> None:
        """Writes the files and prints the table or the JSON."""
        from anydepth.bench.bench_table import bench_json, bench_table
        from anydepth.figures import style
        from anydepth.figures.race import plot_race
        from anydepth.figures.speed import plot_bench
        from anydepth.files.atomic import write_text

        if self.to is not None:
            write_text(self.to, bench_json(measured) + "\n")
        if self.picture is not None:
            style.save_figure(plot_bench(measured.results), self.picture)
        if self.curve is not None:
            style.save_figure(plot_race(measured.results), self.curve)
        print(bench_json(measured) if self.as_json else bench_table(measured))


def measured_bench(shape: TimedShape | None, subject: BenchSubject, settings: "BenchSettings") -> "Bench":
    """The figures of the run, or those of the shape where there is one."""
    return run_bench(subject, settings) if shape is None else shape_bench(shape, subject, settings)


def timed_shape(
    config: Path | None, sizes: tuple[int, int, int, int | None], histogram: str | None, changes: list[str]
) -> TimedShape | None:
    """The shape of the settings `config` with sentences of these sizes; None where there is none."""
    from anydepth.bench.shape import Sizes

    if config is None:
        if changes or sizes[-1] is not None:
            option = "--set" if changes else "--words-per-piece"
            raise UsageError(f"{option} is of a model with random weights; write --shape CONFIG, too, or leave it out")
        return None
    return TimedShape(config=config, sizes=Sizes(*sizes), histogram=histogram, changes=changes)


def named_policies(named: list[str] | None, *, each_exit: bool, each_point: bool) -> list[str]:
    """The policies that were named, and the words that stand for every exit and every point."""
    from anydepth.bench.benchmark import EACH_POINT
    from anydepth.evaluation.evaluate import EACH_EXIT

    return [*(named or []), *([EACH_EXIT] if each_exit else []), *([EACH_POINT] if each_point else [])]


def chosen_engines(named: list[str] | None, run: Path | None) -> tuple[str, ...]:
    """The engines that were named, or else the fastest that the run can have."""
    from anydepth.inference.engines.choice import automatic_engine
    from anydepth.runs.run import Run

    return tuple(named or [automatic_engine(Run(run) if run is not None else None, int8=False)])


def chosen_precisions(int8: bool | None) -> tuple[str, ...]:
    """The one precision that was asked for, or both."""
    from anydepth.bench.contestants import PRECISIONS

    return PRECISIONS if int8 is None else PRECISIONS[int8 : int8 + 1]


def run_bench(subject: BenchSubject, settings: "BenchSettings") -> "Bench":
    """The benchmark of a run on its test set."""
    from anydepth.bench.benchmark import bench_run

    if subject.run is None or subject.test is None:
        raise UsageError(
            "a benchmark needs RUN and --test PREFIX, or --shape CONFIG, as in: anydepth bench runs/demo/exits "
            "--test PREFIX"
        )
    return bench_run(subject.run, subject.test, subject.policies, settings, wish=subject.wish, say=say)


def shape_bench(shape: TimedShape, subject: BenchSubject, settings: "BenchSettings") -> "Bench":
    """The benchmark of a shape, with exits as often as the run's policy or the histogram has
    them."""
    from anydepth.bench.benchmark import bench_shape
    from anydepth.config.loading import load_config
    from anydepth.runs.run import Run

    config = load_config(settings_file(shape.config), shape.changes)
    run = None if subject.run is None else Run(subject.run)
    units = (config if run is None else run.config).exits.halting_units
    shares = forced_shares(shape, config.model.blocks, subject, settings)
    name = ", ".join([str(shape.config), *shape.changes])
    return bench_shape(config, name, shape.sizes, shares, settings, units=units, run=run, test=subject.test, say=say)


def forced_shares(shape: TimedShape, blocks: int, subject: BenchSubject, settings: "BenchSettings") -> list[float]:
    """How often a shape of so many blocks takes each exit: as the histogram says, or else as the
    run's policy does."""
    from anydepth.bench.benchmark import exit_shares
    from anydepth.bench.shape import parse_shares

    if shape.histogram is not None:
        return parse_shares(shape.histogram, blocks)
    policies, wish = subject.policies, subject.wish
    if subject.run is None or subject.test is None or (len(policies) != 1 and wish.is_empty):
        raise UsageError(
            "--shape draws exits from what a policy does: give RUN, --test PREFIX and one --policy or "
            "--average-exit, or --exits-histogram"
        )
    shares = exit_shares(subject.run, subject.test, policies[0] if policies else None, wish, settings, say=say)
    if len(shares) != blocks:
        raise UsageError(
            f"{subject.run} has {len(shares)} exits but {shape.config} has {blocks}; give the shares with "
            "--exits-histogram"
        )
    return shares
