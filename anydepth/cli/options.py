"""What the verbs of the command line share: their options, how they read and talk, and how a wish
becomes a policy."""

import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from anydepth.errors import UsageError
from anydepth.exits.names import POLICY_FORMS
from anydepth.inference.engines.names import AUTOMATIC, ENGINE_NOTES, INT8_ENGINES, enumerated, noted_engine
from anydepth.limits import MOST_BATCH_TOKENS, MOST_BEAM, MOST_JOBS, MOST_THREADS
from anydepth.vocabulary.names import VOCABULARY_FORMS

if TYPE_CHECKING:
    from anydepth.bulk.crew import Muster
    from anydepth.exits.policies import Policy
    from anydepth.inference.translator import Translator
    from anydepth.runs.operating_points import Wish
    from anydepth.search.decoding import DecodingOptions

RunFolder = Annotated[Path, typer.Argument(metavar="RUN", help="A run directory that `anydepth train` made.")]
Settings = Annotated[
    list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Change a setting, as in model.blocks=3.")
]
Beam = Annotated[
    int | None,
    typer.Option(min=1, max=MOST_BEAM, help="Hypotheses to keep; 1 is greedy. Default: the run's decoding.beam."),
]
LengthPenalty = Annotated[
    float | None, typer.Option(min=0.0, max=10.0, help="Exponent of the length by which scores are divided.")
]
AverageExit = Annotated[
    float | None, typer.Option(metavar="AE", help="Wish: the best tuned point of at most this average exit.")
]
Flops = Annotated[
    float | None,
    typer.Option(metavar="SHARE", help="Wish: the best tuned point of at most this share of full depth's FLOPs."),
]
TimeShare = Annotated[
    float | None,
    typer.Option(
        "--time", metavar="SHARE", help="Wish: the best tuned point of at most this share of full depth's time."
    ),
]
BleuDrop = Annotated[
    float | None, typer.Option(metavar="BLEU", help="Wish: the cheapest tuned point at most this far below full depth.")
]
PolicyHelp = ", ".join(POLICY_FORMS.values())
PolicyName = Annotated[str | None, typer.Option(help=f"{PolicyHelp}. Default: full depth.")]
EngineName = Annotated[
    str,
    typer.Option(
        "--engine", help=f"{', '.join(map(noted_engine, ENGINE_NOTES))}, or {AUTOMATIC}: the fastest that is there."
    ),
]
Int8Help = enumerated(INT8_ENGINES, "and").capitalize()
Int8 = Annotated[
    bool,
    typer.Option(
        "--int8",
        help=f"8-bit products: faster, and a few words differ. {Int8Help}.",
    ),
]
VocabularyHelp = ", ".join(VOCABULARY_FORMS.values())
Vocabulary = Annotated[
    str | None,
    typer.Option(
        help=f"{VocabularyHelp}: the words a sentence may use. Default: what `anydepth vocabulary` chose, else full."
    ),
]
ConfigHelp = "A TOML file of settings, or the name of settings that come with anydepth (see `anydepth configs`)"
BatchTokens = Annotated[
    int | None, typer.Option(min=1, max=MOST_BATCH_TOKENS, help="Source tokens times beam that are searched together.")
]

Where = Annotated[Literal["local", "ray"], typer.Option(help="local: this machine's cores. ray: a Ray cluster.")]
Address = Annotated[
    str | None, typer.Option(metavar="HOST:PORT", help="With --on ray: that of a cluster. Default: start one.")
]
Workers = Annotated[
    int | None, typer.Option(min=1, max=MOST_JOBS, help="Models at work side by side. Default: one per core.")
]
Threads = Annotated[int, typer.Option(min=1, max=MOST_THREADS, help="Threads of each worker.")]
Retries = Annotated[
    int, typer.Option(min=1, max=1000, help="How often a piece of the work is tried before it is reported as failed.")
]


def examples(*commands: str) -> str:
    """The last lines of a help text; the control character keeps the commands from being
    wrapped."""
    return "\n".join(["\b", f"Example{'s' * (len(commands) > 1)}:", *(f"  {command}" for command in commands)])


def say(text: str) -> None:
    """A line for people, on stderr."""
    print(text, file=sys.stderr, flush=True)


def input_lines(source: str) -> Iterator[str]:
    """The lines of a file, or of standard input for "-"."""
    from anydepth.text.corpus import decoded_lines, open_lines

    if source != "-":
        return open_lines(Path(source))
    if sys.stdin is None:
        raise UsageError("standard input is closed; name a FILE to read, or pipe text into the command")
    return decoded_lines(sys.stdin.buffer, "standard input")


def settings_file(given: Path) -> Path:
    """The TOML file that `given` names; the place of one that comes with the package is printed."""
    from anydepth.config.shipped import find_settings

    found = find_settings(given)
    if found != given:
        say(f"settings {given}: {found}")
    return found


def tell_if_unfinished(run: Path) -> None:
    """Says of a run whose training was stopped that its weights are not the final ones."""
    from anydepth.runs.run import Run

    if (update := Run(run).interrupted_at()) is not None:
        say(
            f"the training of {run} was interrupted at update {update:,}; go on with `anydepth train --resume "
            f"--to {run}`"
        )


def muster_of(on: str, address: str | None, workers: int | None, threads: int, *, own: int = 0) -> "Muster":
    """Where --on, --address, --workers and --threads have the work done; on this machine, unless
    --workers is given, up to `own` pieces in this process."""
    from anydepth.bulk.local_crew import on_this_machine
    from anydepth.bulk.ray_cluster import require_ray
    from anydepth.bulk.ray_crew import on_ray

    if on == "ray":
        require_ray()
        return on_ray(address=address, workers=workers, threads=threads, say=say)
    if address is not None:
        raise UsageError(f"--address {address} is of a Ray cluster; give --on ray with it")
    return on_this_machine(workers=workers, threads=threads, own=own, say=say)


def wish_of(
    average_exit: float | None, flops: float | None, bleu_drop: float | None, time: float | None = None
) -> "Wish":
    """What the options --average-exit, --flops, --bleu-drop and --time ask for together."""
    from anydepth.runs.operating_points import Wish

    return Wish(average_exit=average_exit, flops=flops, bleu_drop=bleu_drop, time=time)


def wished_search(
    translator: "Translator", policy: str | None, wish: "Wish", decoding: "DecodingOptions"
) -> "tuple[Policy, DecodingOptions]":
    """The policy by name, or that of the operating point that a wish asks for, and the options to
    search with, which have the point's vocabulary.

    One line says which point that is, and how search differs from the search that it was measured
    with.
    """
    from anydepth.clock.machine import timed_otherwise

    if wish.is_empty:
        return translator.policy(policy), decoding
    point, found = translator.operating_point(wish, policy=policy, vocabulary=decoding.vocabulary)
    chosen = replace(decoding, vocabulary=point.vocabulary)
    search = translator.search_settings(chosen)
    otherwise = found.otherwise(search, engine=translator.engine.name)
    clocked = timed_otherwise(found, wish, translator.engine, search)
    here = f"; here with {otherwise}" if otherwise else ""
    here += f"; its time was measured otherwise than here: {clocked}" if clocked else ""
    say(f"{wish.describe()}: {point.describe()}, measured on {found.valid} with beam {found.beam}{here}")
    return translator.policy(point.policy), chosen
