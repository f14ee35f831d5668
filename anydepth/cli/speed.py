"""The verbs about speed: `anydepth export` for other programs, `anydepth bench` for the clock."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from anydepth.cli.options import (
    AverageExit,
    BleuDrop,
    Flops,
    PolicyHelp,
    RunFolder,
    examples,
    say,
    settings_file,
    tell_if_unfinished,
)
from anydepth.errors import UsageError
from anydepth.limits import LARGEST_SEED, MOST_BEAM, MOST_LENGTH, MOST_PIECES, MOST_ROUNDS, MOST_THREADS, MOST_UPDATES

if TYPE_CHECKING:
    from anydepth.bench.benchmark import Bench, BenchSettings
    from anydepth.bench.shape import Sizes
    from anydepth.runs.operating_points import Wish

FORMATS = ("onnx", "ctranslate2")
EXPORT_EXAMPLES = examples(
    "anydepth export runs/demo/exits --format onnx  # needs pip install 'anydepth[onnx]'",
    "anydepth export runs/demo/exits --format ctranslate2 --exit 3 --int8  # needs pip install 'anydepth[ctranslate2]'",
)
BENCH_EXAMPLES = examples(
    "anydepth bench runs/demo/exits --test runs/demo/corpus/test --average-exit 2 --picture bench.png",
    "anydepth bench runs/demo/exits --test runs/demo/corpus/test --average-exit 2 --shape iwslt14_de_en "
    "--batch 1 --batch 32",
    "anydepth bench --shape iwslt14_de_en --exits-histogram 0.6,0.2,0.1,0.05,0.03,0.02",
    "anydepth bench runs/demo/exits --test runs/demo/corpus/test --against ctranslate2  # needs pip "
    "install 'anydepth[ctranslate2]'",
)


def export(
    run: RunFolder,
    to_format: Annotated[str, typer.Option("--format", metavar="FORMAT", help=f"One of {', '.join(FORMATS)}.")],
    exit: Annotated[
        int | None, typer.Option(metavar="N", help="Where to cut the model (ctranslate2). Default: the last exit.")
    ] = None,
    int8: Annotated[
        bool, typer.Option("--int8", help="Weights of 8 bits: smaller, faster, and a little different.")
    ] = False,
    to: Annotated[
        Path | None, typer.Option(help="Folder for the model (ctranslate2). Default: RUN/export/ctranslate2-exitN.")
    ] = None,
) -> None:
    """Write the model for another program: all its exits for ONNX Runtime, or one of them for
    CTranslate2."""
    from anydepth.runs.run import Run

    if to_format not in FORMATS:
        raise UsageError(f"--format {to_format}: models are exported as {' or '.join(FORMATS)}")
    tell_if_unfinished(run)
    if to_format == "onnx":
        from anydepth.inference.export.onnx_folder import export_onnx

        if exit is not None or to is not None:
            raise UsageError(
                "--exit and --to belong to --format ctranslate2; an ONNX export has all exits and stays with its run"
            )
        print(export_onnx(Run(run), int8=int8, say=say))
        return
    from anydepth.inference.export.ctranslate2_folder import export_ctranslate2

    last = Run(run).config.model.blocks
    print(
        export_ctranslate2(
            Run(run), exit=last if exit is None else exit, quantization="int8" if int8 else None, to=to, say=say
        )
    )


def bench(
    run: Annotated[Path | None, typer.Argument(metavar="RUN", help="A run directory; --shape can do without.")] = None,
    test: Annotated[str | None, typer.Option(metavar="PREFIX", help="PREFIX.de and PREFIX.en, plain or .gz.")] = None,
    against: Annotated[
        str | None, typer.Option(metavar="ctranslate2", help="Compare with CTranslate2 at full depth.")
    ] = None,
    rival: Annotated[
        Path | None,
        typer.Option(
            metavar="RUN",
            help="CTranslate2 takes this run's model, such as a baseline of equal BLEU. Default: the same.",
        ),
    ] = None,
    engine: Annotated[
        list[str] | None, typer.Option(help="native, onnx or torch; may be repeated. Default: the fastest at hand.")
    ] = None,
    int8: Annotated[bool | None, typer.Option("--int8/--fp32", help="One precision alone. Default: both.")] = None,
    policy: Annotated[
        list[str] | None, typer.Option(help=f"{PolicyHelp}; may be repeated. Full depth always takes part.")
    ] = None,
    average_exit: AverageExit = None,
    flops: Flops = None,
    bleu_drop: BleuDrop = None,
    batch: Annotated[
        list[int] | None,
        typer.Option(max=MOST_ROUNDS, help="Sentences in a batch; may be repeated. Default: 1, 8 and 32."),
    ] = None,
    beam: Annotated[
        list[int] | None, typer.Option(max=MOST_BEAM, help="Hypotheses to keep; may be repeated. Default: 1 and 5.")
    ] = None,
    threads: Annotated[int, typer.Option(max=MOST_THREADS, help="Threads of every contestant.")] = 1,
    rounds: Annotated[
        int, typer.Option(max=MOST_ROUNDS, help="How often everything is timed, contestants in turn.")
    ] = 5,
    sentences: Annotated[
        int | None,
        typer.Option(max=MOST_UPDATES, help="Sentences to translate. Default: all, or four of the largest batches."),
    ] = None,
    shape: Annotated[
        Path | None,
        typer.Option(metavar="CONFIG", help="Time a model of this shape with random weights and forced exits."),
    ] = None,
    vocab: Annotated[int, typer.Option(max=MOST_PIECES, help="Words of the --shape.")] = 10_000,
    source_length: Annotated[
        int, typer.Option(max=MOST_LENGTH, help="Source tokens of the --shape, the end of the sentence included.")
    ] = 23,
    output_length: Annotated[int, typer.Option(max=MOST_LENGTH, help="Output tokens of the --shape.")] = 25,
    exits_histogram: Annotated[
        str | None,
        typer.Option(
            metavar="SHARE,...", help="Shares of the exits 1..N of the --shape. Default: those of RUN's policy."
        ),
    ] = None,
    seed: Annotated[
        int,
        typer.Option(
            min=0, max=LARGEST_SEED, help="Another seed draws other weights, sentences and exits for the --shape."
        ),
    ] = 1,
    as_json: Annotated[bool, typer.Option("--json", help="Everything as one JSON object.")] = False,
    to: Annotated[Path | None, typer.Option(metavar="FILE", help="Also write the JSON to this file.")] = None,
    picture: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Also draw tokens a second: .png, .svg or .pdf.")
    ] = None,
) -> None:
    """Time full depth and early exits, end to end and decoding alone, in rounds that every
    contestant shares."""
    from anydepth.bench.bench_table import bench_json, bench_table
    from anydepth.bench.benchmark import BenchSettings
    from anydepth.bench.contestants import PRECISIONS
    from anydepth.bench.shape import Sizes
    from anydepth.evaluation.evaluate import check_output
    from anydepth.figures import style
    from anydepth.figures.speed import plot_bench
    from anydepth.files.atomic import write_text
    from anydepth.inference.engines.choice import automatic_engine
    from anydepth.runs.operating_points import Wish
    from anydepth.runs.run import Run

    if picture is not None:
        style.check_figure_path(picture)
    if to is not None and (to.is_dir() or not to.parent.is_dir()):
        raise UsageError(f"--to {to} must be a file in a folder that exists")
    for option, file in (("--to", to), ("--picture", picture)):
        if file is not None and run is not None and test is not None:
            check_output(file, Run(run), test, option=option)
    settings = BenchSettings(
        engines=tuple(engine or [automatic_engine(Run(run) if run is not None else None, int8=False)]),
        precisions=PRECISIONS if int8 is None else PRECISIONS[int8 : int8 + 1],
        batches=tuple(batch or BenchSettings.batches),
        beams=tuple(beam or BenchSettings.beams),
        rounds=rounds,
        threads=threads,
        sentences=sentences,
        seed=seed,
        against=against,
        rival=rival,
    )
    if run is not None:
        tell_if_unfinished(run)
    wish, sizes = Wish(average_exit, flops, bleu_drop), Sizes(vocab, source_length, output_length)
    measured = (
        run_bench(run, test, policy or [], wish, settings)
        if shape is None
        else shape_bench(shape, run, test, policy or [], wish, exits_histogram, sizes, settings)
    )
    if to is not None:
        write_text(to, bench_json(measured) + "\n")
    if picture is not None:
        style.save_figure(plot_bench(measured.results), picture)
    print(bench_json(measured) if as_json else bench_table(measured))


def run_bench(
    run: Path | None, test: str | None, policies: list[str], wish: "Wish", settings: "BenchSettings"
) -> "Bench":
    """The benchmark of a run on its test set."""
    from anydepth.bench.benchmark import bench_run

    if run is None or test is None:
        raise UsageError(
            "a benchmark needs RUN and --test PREFIX, or --shape CONFIG, as in: anydepth bench runs/demo/exits "
            "--test PREFIX"
        )
    return bench_run(run, test, policies, settings, wish=wish, say=say)


def shape_bench(
    shape: Path,
    run: Path | None,
    test: str | None,
    policies: list[str],
    wish: "Wish",
    histogram: str | None,
    sizes: "Sizes",
    settings: "BenchSettings",
) -> "Bench":
    """The benchmark of a shape, with exits as often as the run's policy or the histogram has
    them."""
    from anydepth.bench.benchmark import bench_shape, exit_shares
    from anydepth.bench.shape import parse_shares
    from anydepth.config.loading import load_config
    from anydepth.runs.run import Run

    config = load_config(settings_file(shape))
    blocks = config.model.blocks
    units = (config if run is None else Run(run).config).exits.halting_units
    if histogram is not None:
        shares = parse_shares(histogram, blocks)
    elif run is None or test is None or (len(policies) != 1 and wish.is_empty):
        raise UsageError(
            "--shape draws exits from what a policy does: give RUN, --test PREFIX and one --policy or "
            "--average-exit, or --exits-histogram"
        )
    else:
        shares = exit_shares(run, test, policies[0] if policies else None, wish, settings, say=say)
        if len(shares) != blocks:
            raise UsageError(
                f"{run} has {len(shares)} exits but {shape} has {blocks}; give the shares with --exits-histogram"
            )
    return bench_shape(
        config,
        str(shape),
        sizes,
        shares,
        settings,
        units=units,
        run=None if run is None else Run(run),
        test=test,
        say=say,
    )
