"""The verb `anydepth bulk`: files of any size, in shards, on this machine or on a Ray cluster."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from anydepth.cli.options import (
    Address,
    AverageExit,
    BatchTokens,
    Beam,
    BleuDrop,
    EngineName,
    Flops,
    Int8,
    LengthPenalty,
    PolicyName,
    Retries,
    RunFolder,
    Threads,
    TimeShare,
    Vocabulary,
    Where,
    Workers,
    examples,
    muster_of,
    say,
    tell_if_unfinished,
    wish_of,
    wished_search,
)
from anydepth.errors import AnydepthError, Interrupted, UsageError
from anydepth.inference.engines.names import AUTOMATIC
from anydepth.limits import MOST_BEAM, MOST_UPDATES

if TYPE_CHECKING:
    from anydepth.bulk.job import BulkResult

EXAMPLES = examples(
    "anydepth bulk runs/demo/exits corpus/test.de --to translated --average-exit 2",
    "anydepth bulk runs/demo/model 'corpus/test.*' --to translated-json --json",
)

Inputs = Annotated[
    list[str],
    typer.Argument(
        metavar="INPUT...", help="Files or globs: text, .jsonl or .parquet; text and .jsonl may be .gz or .zst."
    ),
]
JobPlace = Annotated[Path, typer.Option(metavar="DIR", help="The folder of the job; given again, it goes on.")]
Best = Annotated[int, typer.Option(min=1, max=MOST_BEAM, help="Translations to give for each line (with --json).")]
AsJson = Annotated[
    bool, typer.Option("--json", help="Text, tokens, exits and scores as one JSON object per line or row.")
]
Field = Annotated[str, typer.Option(help="The field or column of .jsonl and .parquet with the sentence.")]
Into = Annotated[str, typer.Option(help="The field or column that gets the translation.")]
ShardLines = Annotated[int, typer.Option(min=1, max=MOST_UPDATES, help="Lines of a shard.")]


def register(app: typer.Typer) -> None:
    app.command(epilog=EXAMPLES)(bulk)


def bulk(
    run: RunFolder,
    inputs: Inputs,
    to: JobPlace,
    on: Where = "local",
    address: Address = None,
    workers: Workers = None,
    threads: Threads = 1,
    policy: PolicyName = None,
    average_exit: AverageExit = None,
    flops: Flops = None,
    time: TimeShare = None,
    bleu_drop: BleuDrop = None,
    beam: Beam = None,
    length_penalty: LengthPenalty = None,
    best: Best = 1,
    batch_tokens: BatchTokens = None,
    vocabulary: Vocabulary = None,
    engine: EngineName = AUTOMATIC,
    int8: Int8 = False,
    as_json: AsJson = False,
    field: Field = "text",
    into: Into = "translation",
    shard_lines: ShardLines = 5000,
    retries: Retries = 3,
) -> None:
    """Translate files of any size in shards, on all cores or a Ray cluster; what was killed goes on
    where it was."""
    from anydepth.bulk.job import translate_bulk
    from anydepth.bulk.planning import BulkSettings
    from anydepth.bulk.rows import RowFormat
    from anydepth.inference.translator import Translator
    from anydepth.search.decoding import DecodingOptions

    if best > 1 and not as_json:
        raise UsageError(f"--best {best} gives several translations per line, which needs --json")
    muster = muster_of(on, address, workers, threads)
    translator = Translator.load(run, engine=engine, int8=int8)
    tell_if_unfinished(run)
    decoding = DecodingOptions(
        beam=beam, length_penalty=length_penalty, batch_tokens=batch_tokens, best=best, vocabulary=vocabulary
    )
    wish = wish_of(average_exit, flops, bleu_drop, time)
    chosen, decoding = wished_search(translator, policy, wish, decoding)
    form = RowFormat(as_json=as_json, field=field, into=into)
    settings = BulkSettings(policy=chosen, decoding=decoding, form=form, shard_lines=shard_lines, retries=retries)
    try:
        result = translate_bulk(translator, inputs, to, settings, muster=muster, say=say)
    except Interrupted as error:
        raise Interrupted(f"stopped; what is done stays in {to}, and the same command goes on with the rest") from error
    if result.has_failed:
        raise AnydepthError(failures(result))


def failures(result: "BulkResult") -> str:
    """What could not be translated, in one sentence."""
    lines, shards = result.failed_lines, result.failed_shards
    place, reason = next(iter((shards | lines).items()))
    again = "; the same command tries the shards again" if shards else ""
    return (
        f"{len(lines):,} lines and {len(shards):,} shards could not be translated, the first: {place}, because "
        f"{reason}{again}"
    )
