"""The command line: one function a verb. Data goes to stdout, talk to stderr; torch is imported
inside the verbs."""

import json
import math
import os
import signal
import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from anydepth import __version__
from anydepth.cli.configs import CONFIGS_EXAMPLES, configs
from anydepth.cli.data import data as data_recipes
from anydepth.cli.options import (
    AverageExit,
    BatchTokens,
    Beam,
    BleuDrop,
    ConfigHelp,
    EngineName,
    Flops,
    Int8,
    LengthPenalty,
    PolicyHelp,
    PolicyName,
    RunFolder,
    Settings,
    examples,
    say,
    settings_file,
    tell_if_unfinished,
    wished_policy,
)
from anydepth.cli.plot import plot
from anydepth.cli.score_exits import SCORE_EXAMPLES, score_exits
from anydepth.cli.speed import BENCH_EXAMPLES, EXPORT_EXAMPLES, bench, export
from anydepth.cli.streams import lost_output, open_streams, unwritten_output
from anydepth.cli.study import REPORT_EXAMPLES, STEP_EXAMPLES, STUDY_EXAMPLES, report, study, study_step
from anydepth.cli.waiting import choose_waiting
from anydepth.errors import AnydepthError, Interrupted, OtherWorkerReports, UsageError
from anydepth.exits.names import THRESHOLD_FAMILIES
from anydepth.limits import (
    LARGEST_SEED,
    MOST_BEAM,
    MOST_BLOCKS,
    MOST_CANDIDATES,
    MOST_LENGTH,
    MOST_PIECES,
    MOST_UPDATES,
)

if TYPE_CHECKING:
    from anydepth.inference.translator import Translation, Translator

MOST_SAID = 2000  # characters of an error

app = typer.Typer(
    help="Translation models that think only as deep as each word needs.",
    epilog="Start with: anydepth demo --to runs/demo",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


@app.callback(invoke_without_command=True)
def anydepth(version: Annotated[bool, typer.Option("--version", help="Print the version and stop.")] = False) -> None:
    if version:
        print(f"anydepth {__version__}")
        raise typer.Exit


@app.command(epilog=examples("anydepth corpus --to corpus"))
def corpus(
    to: Annotated[Path, typer.Option(help="Folder for {train,valid,test}.{de,en}.")],
    seed: Annotated[int, typer.Option(min=0, max=LARGEST_SEED, help="Another seed makes other sentences.")] = 1,
) -> None:
    """Write the built-in German-English corpus as plain text files."""
    from anydepth.demo.corpus import write_corpus

    if to.exists() and (not to.is_dir() or any(to.iterdir())):
        raise UsageError(f"{to} exists already and would be overwritten; choose another --to")
    for split, pairs in write_corpus(to, seed=seed).items():
        say(f"{split}: {pairs:,} pairs")


@app.command(
    epilog=examples(
        "anydepth prepare --source-lang de --target-lang en --train corpus/train --valid corpus/valid --test "
        "corpus/test "
        "--vocab-size 999 --to data"
    )
)
def prepare(
    source_lang: Annotated[str, typer.Option(help="Ending of the source files, as in de.")],
    target_lang: Annotated[str, typer.Option(help="Ending of the target files, as in en.")],
    train: Annotated[str, typer.Option(metavar="PREFIX", help="PREFIX.de and PREFIX.en, plain or .gz.")],
    valid: Annotated[str, typer.Option(metavar="PREFIX", help="Held-out text to validate on.")],
    to: Annotated[Path, typer.Option(help="Folder for tokenizers and token files.")],
    test: Annotated[str | None, typer.Option(metavar="PREFIX", help="Held-out text to test on.")] = None,
    vocab_size: Annotated[
        int | None, typer.Option(min=1, max=MOST_PIECES, help="Pieces in a vocabulary. Default: 10,000.")
    ] = None,
    joint: Annotated[
        bool, typer.Option("--joint/--separate", help="One vocabulary for both languages, or one for each.")
    ] = True,
    max_tokens: Annotated[
        int, typer.Option(max=MOST_LENGTH, help="Drop training pairs with a side longer than this.")
    ] = 250,
    max_ratio: Annotated[
        float, typer.Option(help="Drop training pairs whose sides differ by more than this factor.")
    ] = 3.0,
    sample: Annotated[
        int,
        typer.Option(
            max=MOST_UPDATES, help="Lines to learn the vocabulary from; memory grows with it, not with the corpus."
        ),
    ] = 1_000_000,
    tokenizer_from: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="Use the vocabulary of this run or prepared folder, as --from needs for other text."
        ),
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace prepared data at --to.")] = False,
) -> None:
    """Turn parallel text into a vocabulary and memory-mapped token files."""
    from anydepth.text.prepare import PrepareSettings
    from anydepth.text.prepare import prepare as prepare_text

    known = None if tokenizer_from is None else str(tokenizer_from)
    settings = PrepareSettings(
        source_lang, target_lang, train, valid, test, vocab_size, joint, max_tokens, max_ratio, sample, known
    )
    prepare_text(settings, to, overwrite=overwrite, say=say)


@app.command(
    epilog=examples(
        "anydepth train demo --data data --to runs/first --minutes 3",
        "anydepth train --resume --to runs/first",
        "anydepth train --from runs/first --to runs/exits --set exits.halting=geometric --set "
        "exits.oracle=correctness --minutes 2",
        "torchrun --nproc-per-node 2 -m anydepth train demo --data data --to runs/two",
    )
)
def train(
    to: Annotated[Path, typer.Option(metavar="RUN", help="Folder for the run.")],
    config: Annotated[Path | None, typer.Argument(metavar="CONFIG", help=f"{ConfigHelp}.")] = None,
    data: Annotated[
        Path | None, typer.Option(help="Folder that `anydepth prepare` made; with --resume where it has moved to.")
    ] = None,
    origin: Annotated[
        Path | None,
        typer.Option(
            "--from",
            metavar="RUN",
            help="Start from this run's weights, tokenizer and settings but minutes; CONFIG has what changes.",
        ),
    ] = None,
    changes: Settings = None,
    minutes: Annotated[float | None, typer.Option(help="Stop after this time even if updates are left.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the run at --to.")] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace a run at --to.")] = False,
) -> None:
    """Train a model whose decoder can stop after any block, and with exits.halting teach it
    where."""
    from anydepth.training.start import continued_run, new_run, resumed_run, train_run

    if minutes is not None and not 0 < minutes < math.inf:
        raise UsageError(f"--minutes {minutes:g} is no time to train for; give a number above 0")
    wishes = [*(changes or []), *([f"training.minutes={minutes}"] if minutes is not None else [])]
    if resume:
        if config or overwrite or origin:
            raise UsageError("--resume goes on with the settings of the run; leave out CONFIG, --from and --overwrite")
        train_run(to, lambda: resumed_run(to, wishes, data_folder=data))
    elif origin is not None:
        train_run(
            to,
            lambda: continued_run(
                to, origin, config and settings_file(config), wishes, data_folder=data, overwrite=overwrite
            ),
        )
    elif config is None or data is None:
        raise UsageError("a new run needs CONFIG and --data, as in: anydepth train demo --data data --to runs/first")
    else:
        train_run(to, lambda: new_run(to, settings_file(config), data, wishes, overwrite=overwrite))


@app.command(
    epilog=examples(
        "echo 'Anna kommt um halb drei in Berlin an.' | anydepth translate runs/demo/model --policy fixed:3",
        "echo 'Anna kommt um halb drei in Berlin an.' | anydepth translate runs/demo/exits --average-exit 2 "
        "--show-exits",
    )
)
def translate(
    run: RunFolder,
    source: Annotated[
        str, typer.Argument(metavar="FILE", help="Text to translate, a line a sentence; - is standard input.")
    ] = "-",
    policy: PolicyName = None,
    average_exit: AverageExit = None,
    flops: Flops = None,
    bleu_drop: BleuDrop = None,
    beam: Beam = None,
    length_penalty: LengthPenalty = None,
    best: Annotated[
        int, typer.Option(min=1, max=MOST_BEAM, help="Translations to give for each line (with --json).")
    ] = 1,
    batch_tokens: BatchTokens = None,
    engine: EngineName = "auto",
    int8: Int8 = False,
    show_exits: Annotated[
        bool, typer.Option("--show-exits", help="Each word in the colour of its exit, with the exit behind it.")
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Text, tokens, exits and scores as one JSON object a line.")
    ] = False,
) -> None:
    """Translate lines; one output line for every input line, in order, as soon as they are
    ready."""
    from anydepth.inference.translator import Translator
    from anydepth.runs.operating_points import Wish

    if best > 1 and not as_json:
        raise UsageError(f"--best {best} gives several translations a line, which needs --json")
    if show_exits and as_json:
        raise UsageError("--show-exits is for people and --json for machines; choose one (the JSON has the exits too)")
    translator = Translator.load(run, engine=engine, int8=int8)
    tell_if_unfinished(run)
    lines = translator.translate_stream(
        input_lines(source),
        policy=wished_policy(
            translator, policy, Wish(average_exit, flops, bleu_drop), beam=beam, length_penalty=length_penalty
        ),
        beam=beam,
        length_penalty=length_penalty,
        best=best,
        batch_tokens=batch_tokens,
    )
    if show_exits:
        print_exits(warned(lines, translator), blocks=translator.model.blocks)
        return
    for translation in warned(lines, translator):
        print(json.dumps(translation.to_json(), ensure_ascii=False) if as_json else translation.line, flush=True)


@app.command(
    epilog=examples(
        "anydepth evaluate runs/demo/model --test runs/demo/corpus/test --policy fixed:1 --policy fixed:6",
        "anydepth evaluate runs/demo/exits --test runs/demo/corpus/test --average-exit 2 --against fixed:2",
    )
)
def evaluate(
    run: RunFolder,
    test: Annotated[str, typer.Option(metavar="PREFIX", help="PREFIX.de and PREFIX.en, plain or .gz.")],
    policy: Annotated[
        list[str] | None, typer.Option(help=f"{PolicyHelp}; may be repeated. Default: full depth.")
    ] = None,
    each_exit: Annotated[bool, typer.Option("--each-exit", help="Every fixed exit, then uniform exits.")] = False,
    average_exit: AverageExit = None,
    flops: Flops = None,
    bleu_drop: BleuDrop = None,
    against: Annotated[
        str | None,
        typer.Option(metavar="POLICY|FILE", help="Compare with this policy, or with these lines, by paired bootstrap."),
    ] = None,
    executed: Annotated[
        bool, typer.Option("--executed", help="Translate once more and count the FLOPs that are really executed.")
    ] = False,
    beam: Beam = None,
    length_penalty: LengthPenalty = None,
    batch_tokens: BatchTokens = None,
    engine: EngineName = "auto",
    int8: Int8 = False,
    output: Annotated[
        Path | None, typer.Option(help="Also write the translations of the last policy to this file.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Everything as one JSON object.")] = False,
) -> None:
    """Measure quality, depth, cost and speed on a test set."""
    from anydepth.evaluation.evaluate import Options, evaluate_run
    from anydepth.evaluation.evaluation_table import evaluation_json, evaluation_table
    from anydepth.runs.operating_points import Wish

    tell_if_unfinished(run)
    evaluation = evaluate_run(
        run,
        test,
        [*(policy or []), *(["each"] if each_exit else [])],
        wish=Wish(average_exit, flops, bleu_drop),
        output=output,
        against=against,
        is_counted=executed,
        options=Options(beam, length_penalty, batch_tokens),
        engine=engine,
        int8=int8,
        say=say,
    )
    print(evaluation_json(evaluation) if as_json else evaluation_table(evaluation))


@app.command(
    epilog=examples(
        "anydepth tune runs/demo/exits --valid runs/demo/corpus/valid --candidates 300 --segment 1 --beam 1"
    )
)
def tune(
    run: RunFolder,
    valid: Annotated[
        str, typer.Option(metavar="PREFIX", help="Held-out text to tune on: PREFIX.de and PREFIX.en, plain or .gz.")
    ],
    policy: Annotated[
        str | None,
        typer.Option(
            help=f"One of {', '.join(THRESHOLD_FAMILIES)}[:K]. Default: geometric if the run has it, else confidence."
        ),
    ] = None,
    method: Annotated[
        str,
        typer.Option(
            help="replay: score all candidates on a record, decode the best. decode: decode all, as the paper does."
        ),
    ] = "replay",
    candidates: Annotated[int, typer.Option(min=1, max=MOST_CANDIDATES, help="Threshold vectors to try.")] = 10_000,
    segment: Annotated[
        float,
        typer.Option(
            min=0.01, max=float(MOST_BLOCKS), help="Width of the segments of the average exit; each gets a point."
        ),
    ] = 0.25,
    decoded: Annotated[
        int, typer.Option(min=1, max=MOST_CANDIDATES, help="Candidates that replay decodes in each segment.")
    ] = 1,
    seed: Annotated[int, typer.Option(min=0, max=LARGEST_SEED, help="Another seed tries other candidates.")] = 1,
    beam: Beam = None,
    length_penalty: LengthPenalty = None,
    batch_tokens: BatchTokens = None,
    as_json: Annotated[bool, typer.Option("--json", help="The points as one JSON object.")] = False,
) -> None:
    """Find thresholds for every budget and store them with the run, for --average-exit, --flops and
    --bleu-drop."""
    from anydepth.evaluation.evaluation_table import points_json, points_table
    from anydepth.tuning.tune import TuneSettings, tune_run

    settings = TuneSettings(method, candidates, segment, decoded, seed, beam, length_penalty, batch_tokens)
    tell_if_unfinished(run)
    found = tune_run(run, valid, policy, settings, say=say)
    print(points_json(found) if as_json else points_table(found))


@app.command(epilog=examples("anydepth check runs/first", "anydepth check data"))
def check(folder: Annotated[Path, typer.Argument(metavar="DIR", help="A run, prepared data, or an export.")]) -> None:
    """Check that every file of a run, of prepared data or of an export is as it was written."""
    from anydepth.inference.checking import check_folder

    say(f"{folder}: {check_folder(folder):,} files, all of them as they were written")


@app.command(epilog=examples("anydepth seal runs/first"))
def seal(run: RunFolder) -> None:
    """Check the files of a run and vouch for them as they are now: for runs of older versions, and
    for files changed on purpose."""
    from anydepth.runs.vouching import seal_run

    files, lost = seal_run(run)
    if lost:
        say(f"warning: {lost:,} damaged lines of {run / 'metrics.jsonl'} are gone")
    say(f"{run} is sealed: {len(files)} files were checked as far as they can be and are vouched for as they are now")


app.command(epilog=CONFIGS_EXAMPLES)(configs)
app.add_typer(data_recipes, name="data")
app.add_typer(plot, name="plot")
app.command(epilog=EXPORT_EXAMPLES)(export)
app.command(epilog=BENCH_EXAMPLES)(bench)
app.command(name="score-exits", epilog=SCORE_EXAMPLES)(score_exits)
app.command(epilog=STUDY_EXAMPLES)(study)
app.command(name="study-step", epilog=STEP_EXAMPLES)(study_step)
app.command(epilog=REPORT_EXAMPLES)(report)


@app.command(epilog=examples("anydepth demo --to runs/demo"))
def demo(
    to: Annotated[Path, typer.Option(help="Folder for the corpus, the data and the runs.")] = Path("runs/demo"),
    config: Annotated[Path | None, typer.Option(help="Settings of the model, a file or a name. Default: demo.")] = None,
    exits_config: Annotated[
        Path | None, typer.Option(help="Settings of the second stage. Default: demo_exits.")
    ] = None,
) -> None:
    """Do everything on the built-in corpus: generate, prepare, train, teach where to stop, tune,
    measure, show."""
    from anydepth.demo.walkthrough import run_demo

    run_demo(to, config and settings_file(config), exits_config and settings_file(exits_config), say=say)


def main() -> None:
    """Runs the command; what a user can cause ends in one sentence and exit code 1, 2 or 130, never
    in a traceback.

    A reader of the output that leaves early ends the command with exit code 1 and no sentence, as
    it does with other tools of a pipe.
    """
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, interrupt)
    choose_waiting()
    open_streams()
    code, sentence = outcome()
    failure = unwritten_output()
    if failure is not None and code <= 1:
        code, sentence = 1, failure
    if sentence:
        with suppress(OSError):  # nobody is left to tell
            say(sentence)
    if code:
        leave(code)


def outcome() -> tuple[int, str]:
    """The exit code of the command, and its last sentence."""
    try:
        Path.cwd()
    except FileNotFoundError:
        return 2, error_line("the folder that the command was started in is no longer there; go to another one")
    try:
        app()
    except SystemExit as ending:
        return (ending.code if isinstance(ending.code, int) else int(ending.code is not None)), ""
    except OtherWorkerReports as silent:
        return silent.exit_code, ""
    except Interrupted as error:
        return error.exit_code, str(error)
    except AnydepthError as error:
        return error.exit_code, error_line(str(error))
    except OSError as error:
        return 1, lost_output(error) or error_line(
            f"{error.strerror or error}{f': {error.filename}' if error.filename else ''}"
        )
    except (MemoryError, RuntimeError) as error:
        if not is_out_of_memory(error):
            raise
        return 1, error_line(
            "there is not enough memory for this; lower --batch-tokens, --beam or the sizes of the model"
        )
    return 0, ""


def error_line(text: str) -> str:
    """An error as one line of a bearable length: what a name of a file or a value could do to the
    terminal is written out."""
    line = "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)
    if len(line) > MOST_SAID:
        line = f"{line[: MOST_SAID // 2]} ... {line[-MOST_SAID // 2 :]}"
    return f"error: {line}"


def is_out_of_memory(error: MemoryError | RuntimeError) -> bool:
    """Whether memory was asked for and not had: Python and C++ say so with a MemoryError, torch in
    the text of its own."""
    return isinstance(error, MemoryError) or "not enough memory" in str(error) or "out of memory" in str(error)


def interrupt(number: int, frame: FrameType | None) -> None:
    """Turns Ctrl-C and SIGTERM into an error with a sentence; cleaning up happens on the way
    out."""
    raise Interrupted("stopped; finished files stay and nothing half-written is left")


def leave(code: int) -> NoReturn:
    """Ends the process, at once where a library is still at work that cannot be stopped; everything
    else is cleaned up by now."""
    from anydepth.messages.heartbeat import is_at_work

    if is_at_work():
        os._exit(code)
    sys.exit(code)


def warned(lines: "Iterable[Translation]", translator: "Translator") -> "Iterator[Translation]":
    """The translations, with a warning for each whose source was cut."""
    for number, translation in enumerate(lines, 1):
        if translation.was_truncated:
            say(
                f"warning: line {number:,} is longer than {translator.model.config.max_length} tokens; its beginning "
                "was translated"
            )
        yield translation


def print_exits(lines: "Iterable[Translation]", *, blocks: int) -> None:
    """The words in the colours of their exits on stdout, the legend with the average exit on
    stderr."""
    from rich.console import Console

    from anydepth.inference.show import exit_legend, shown_exits

    output, seen = Console(highlight=False, soft_wrap=True), []
    for translation in lines:
        output.print(shown_exits(translation, blocks=blocks))
        seen.append(translation)
    Console(stderr=True, highlight=False, soft_wrap=True).print(exit_legend(seen, blocks=blocks))


def input_lines(source: str) -> Iterator[str]:
    """The lines of a file, or of standard input for "-"."""
    from anydepth.text.corpus import decoded_lines, open_lines

    if source != "-":
        return open_lines(Path(source))
    if sys.stdin is None:
        raise UsageError("standard input is closed; name a FILE to translate, or pipe text into the command")
    return decoded_lines(sys.stdin.buffer, "standard input")
