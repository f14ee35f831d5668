"""The verb `anydepth score-exits`: the scores of every exit, which the BLEU oracle chooses by."""

from pathlib import Path
from typing import Annotated

import typer

from anydepth.cli.options import (
    Address,
    Retries,
    RunFolder,
    Threads,
    Where,
    Workers,
    examples,
    muster_of,
    say,
    tell_if_unfinished,
)
from anydepth.errors import Interrupted
from anydepth.limits import MOST_BEAM, MOST_UPDATES

EXAMPLES = examples(
    "anydepth score-exits runs/demo/model --sentences 2000",
    "anydepth score-exits runs/demo/model --metric chrf --overwrite",
)


def register(app: typer.Typer) -> None:
    app.command("score-exits", epilog=EXAMPLES)(score_exits)


def score_exits(
    run: RunFolder,
    sentences: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=MOST_UPDATES,
            metavar="K",
            help="Score a sample of K training pairs, always the same. Default: all.",
        ),
    ] = None,
    metric: Annotated[str, typer.Option(help="Sentence-level bleu or chrf, in points.")] = "bleu",
    beam: Annotated[int, typer.Option(min=1, max=MOST_BEAM, help="Hypotheses to keep; 1 is greedy.")] = 1,
    data: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="Prepared text in the run's vocabulary. Default: what the run was trained on."
        ),
    ] = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace scores that were made with another metric or beam.")
    ] = False,
    on: Where = "local",
    address: Address = None,
    workers: Workers = None,
    threads: Threads = 1,
    retries: Retries = 3,
    as_json: Annotated[bool, typer.Option("--json", help="The summary as one JSON object.")] = False,
) -> None:
    """Translate training text at every exit and store how good each is, for exits.oracle = "bleu", on
    all cores or a Ray cluster; goes on where it was stopped."""
    from anydepth.bleu_oracle.scoring import FEW_PARTS, ScoreSettings
    from anydepth.bleu_oracle.scoring import score_exits as make_scores
    from anydepth.bleu_oracle.summary import summarise, summary_json, summary_table
    from anydepth.search.decoding import DecodingOptions

    muster = muster_of(on, address, workers, threads, own=FEW_PARTS)
    tell_if_unfinished(run)
    settings = ScoreSettings(metric=metric, decoding=DecodingOptions(beam=beam), sentences=sentences, retries=retries)
    try:
        scores = make_scores(run, settings, data_folder=data, overwrite=overwrite, muster=muster, say=say)
    except Interrupted as error:
        raise Interrupted(
            f"stopped; what is scored stays in {run}, and the same command goes on with the rest"
        ) from error
    summary = summarise(scores)
    print(summary_json(summary) if as_json else summary_table(summary))
