"""The command line: one function a verb. Data goes to stdout, talk to stderr; torch is imported inside the verbs."""

import io
import json
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Annotated

import typer

from anydepth import __version__
from anydepth.errors import AnydepthError, Interrupted, UsageError


def examples(*commands: str) -> str:
    """The last lines of a help text; the control character keeps the commands from being wrapped."""
    return "\n".join(["\b", f"Example{'s' * (len(commands) > 1)}:", *(f"  {command}" for command in commands)])


app = typer.Typer(
    help="Translation models that think only as deep as each word needs.",
    epilog="Start with: anydepth demo --to runs/demo",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)

RunFolder = Annotated[Path, typer.Argument(metavar="RUN", help="A run directory that `anydepth train` made.")]
Settings = Annotated[list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Change a setting, as in model.blocks=3.")]
Beam = Annotated[int | None, typer.Option(min=1, help="Hypotheses to keep; 1 is greedy. Default: the run's decoding.beam.")]
LengthPenalty = Annotated[float | None, typer.Option(min=0.0, max=10.0, help="Exponent of the length by which scores are divided.")]
BatchTokens = Annotated[int | None, typer.Option(min=1, help="Source tokens times beam that are searched together.")]


@app.callback(invoke_without_command=True)
def anydepth(version: Annotated[bool, typer.Option("--version", help="Print the version and stop.")] = False) -> None:
    if version:
        print(f"anydepth {__version__}")
        raise typer.Exit


@app.command(epilog=examples("anydepth corpus --to corpus"))
def corpus(
    to: Annotated[Path, typer.Option(help="Folder for {train,valid,test}.{de,en}.")],
    seed: Annotated[int, typer.Option(min=0, help="Another seed makes other sentences.")] = 1,
) -> None:
    """Write the built-in German-English corpus as plain text files."""
    from anydepth.text.demo.corpus import write_corpus

    if to.exists() and (not to.is_dir() or any(to.iterdir())):
        raise UsageError(f"{to} exists already and would be overwritten; choose another --to")
    for split, pairs in write_corpus(to, seed=seed).items():
        say(f"{split}: {pairs:,} pairs")


@app.command(
    epilog=examples(
        "anydepth prepare --source-lang de --target-lang en --train corpus/train --valid corpus/valid --vocab-size 999 --to data"
    )
)
def prepare(
    source_lang: Annotated[str, typer.Option(help="Ending of the source files, as in de.")],
    target_lang: Annotated[str, typer.Option(help="Ending of the target files, as in en.")],
    train: Annotated[str, typer.Option(metavar="PREFIX", help="PREFIX.de and PREFIX.en, plain or .gz.")],
    valid: Annotated[str, typer.Option(metavar="PREFIX", help="Held-out text to validate on.")],
    to: Annotated[Path, typer.Option(help="Folder for tokenizers and token files.")],
    test: Annotated[str | None, typer.Option(metavar="PREFIX", help="Held-out text to test on.")] = None,
    vocab_size: Annotated[int, typer.Option(min=1, max=1_000_000, help="Pieces in a vocabulary.")] = 10_000,
    joint: Annotated[bool, typer.Option("--joint/--separate", help="One vocabulary for both languages, or one for each.")] = True,
    max_tokens: Annotated[int, typer.Option(help="Drop training pairs with a side longer than this.")] = 250,
    max_ratio: Annotated[float, typer.Option(help="Drop training pairs whose sides differ by more than this factor.")] = 3.0,
    sample: Annotated[int, typer.Option(help="Lines to learn the vocabulary from; memory grows with it, not with the corpus.")] = 1_000_000,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace prepared data at --to.")] = False,
) -> None:
    """Turn parallel text into a vocabulary and memory-mapped token files."""
    from anydepth.text.prepare import PrepareSettings
    from anydepth.text.prepare import prepare as prepare_text

    settings = PrepareSettings(source_lang, target_lang, train, valid, test, vocab_size, joint, max_tokens, max_ratio, sample)
    prepare_text(settings, to, overwrite=overwrite, report=say)


@app.command(
    epilog=examples(
        "anydepth train configs/demo.toml --data data --to runs/first --minutes 3",
        "anydepth train --resume --to runs/first",
        "torchrun --nproc-per-node 2 -m anydepth train configs/demo.toml --data data --to runs/two",
    )
)
def train(
    to: Annotated[Path, typer.Option(metavar="RUN", help="Folder for the run.")],
    config: Annotated[Path | None, typer.Argument(metavar="CONFIG", help="A TOML file of settings.")] = None,
    data: Annotated[Path | None, typer.Option(help="Folder that `anydepth prepare` made; with --resume where it has moved to.")] = None,
    changes: Settings = None,
    minutes: Annotated[float | None, typer.Option(min=0.0, help="Stop after this time even if updates are left.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the run at --to.")] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace a run at --to.")] = False,
) -> None:
    """Train a model whose decoder can stop after any block."""
    from anydepth.evaluation.measure import validation_scorer
    from anydepth.training.start import new_run, resumed_run, train_run

    wishes = [*(changes or []), *([f"training.minutes={minutes}"] if minutes is not None else [])]
    if resume:
        if config or overwrite:
            raise UsageError("--resume goes on with the settings of the run; leave out CONFIG and --overwrite")
        train_run(to, lambda: resumed_run(to, wishes, data_folder=data), validation_scorer)
    elif config is None or data is None:
        raise UsageError("a new run needs CONFIG and --data, as in: anydepth train configs/demo.toml --data data --to runs/first")
    else:
        train_run(to, lambda: new_run(to, config, data, wishes, overwrite=overwrite), validation_scorer)


@app.command(epilog=examples("echo 'Anna kommt um halb drei in Berlin an.' | anydepth translate runs/demo/model --policy fixed:3"))
def translate(
    run: RunFolder,
    source: Annotated[str, typer.Argument(metavar="FILE", help="Text to translate, a line a sentence; - is standard input.")] = "-",
    policy: Annotated[str | None, typer.Option(help="fixed:N or uniform[:SEED]. Default: full depth.")] = None,
    beam: Beam = None,
    length_penalty: LengthPenalty = None,
    best: Annotated[int, typer.Option(min=1, help="Translations to give for each line (with --json).")] = 1,
    batch_tokens: BatchTokens = None,
    as_json: Annotated[bool, typer.Option("--json", help="Text, tokens, exits and scores as one JSON object a line.")] = False,
) -> None:
    """Translate lines; one output line for every input line, in order, as soon as they are ready."""
    from anydepth.inference.translator import Translator

    if best > 1 and not as_json:
        raise UsageError(f"--best {best} gives several translations a line, which needs --json")
    translator = Translator.load(run)
    lines = translator.translate_stream(
        input_lines(source),
        policy=translator.policy(policy),
        beam=beam,
        length_penalty=length_penalty,
        best=best,
        batch_tokens=batch_tokens,
    )
    for number, translation in enumerate(lines, 1):
        if translation.was_truncated:
            say(f"warning: line {number:,} is longer than {translator.model.config.max_length} tokens; its beginning was translated")
        print(json.dumps(translation.to_json(), ensure_ascii=False) if as_json else translation.line, flush=True)


@app.command(epilog=examples("anydepth evaluate runs/demo/model --test runs/demo/corpus/test --policy fixed:1 --policy fixed:6"))
def evaluate(
    run: RunFolder,
    test: Annotated[str, typer.Option(metavar="PREFIX", help="PREFIX.de and PREFIX.en, plain or .gz.")],
    policy: Annotated[list[str] | None, typer.Option(help="fixed:N or uniform[:SEED]; may be repeated. Default: full depth.")] = None,
    each_exit: Annotated[bool, typer.Option("--each-exit", help="Every fixed exit, then uniform exits.")] = False,
    beam: Beam = None,
    length_penalty: LengthPenalty = None,
    batch_tokens: BatchTokens = None,
    output: Annotated[Path | None, typer.Option(help="Also write the translations of the last policy to this file.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Everything as one JSON object.")] = False,
) -> None:
    """Measure quality, depth and speed on a test set."""
    from anydepth.evaluation.evaluate import evaluate_run
    from anydepth.evaluation.table import evaluation_json, evaluation_table

    names = [*(policy or []), *(["each"] if each_exit else [])]
    evaluation = evaluate_run(run, test, names, output=output, beam=beam, length_penalty=length_penalty, batch_tokens=batch_tokens, say=say)
    print(evaluation_json(evaluation) if as_json else evaluation_table(evaluation))


@app.command(epilog=examples("anydepth demo --to runs/demo"))
def demo(
    to: Annotated[Path, typer.Option(help="Folder for the corpus, the data and the run.")] = Path("runs/demo"),
    config: Annotated[Path | None, typer.Option(help="Settings of the model. Default: configs/demo.toml.")] = None,
) -> None:
    """Do everything on the built-in corpus: generate, prepare, train, evaluate each exit, translate."""
    from anydepth.demo import run_demo

    run_demo(to, config, say=say)


def main() -> None:
    """Runs the command; what a user can cause ends in one sentence and exit code 1, 2 or 130, never in a traceback.

    Typer itself ends quietly when nobody reads the output any more.
    """
    signal.signal(signal.SIGINT, interrupt)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8")
    try:
        app()
    except Interrupted as error:
        say(str(error))
        sys.exit(error.exit_code)
    except AnydepthError as error:
        say(f"error: {error}")
        sys.exit(error.exit_code)
    except OSError as error:
        say(f"error: {error.strerror or error}{f': {error.filename}' if error.filename else ''}")
        sys.exit(1)


def interrupt(number: int, frame: FrameType | None) -> None:
    """Turns Ctrl-C into an error with a sentence; cleaning up happens on the way out."""
    raise Interrupted("stopped; finished files stay and nothing half-written is left")


def say(text: str) -> None:
    """A line for people; of several workers those that have nothing to say are silent."""
    if text.removeprefix("error: "):
        print(text, file=sys.stderr, flush=True)


def input_lines(source: str) -> Iterator[str]:
    """The lines of a file, or of standard input for "-"."""
    from anydepth.text.corpus import decoded_lines, open_lines

    return decoded_lines(sys.stdin.buffer, "standard input") if source == "-" else open_lines(Path(source))
