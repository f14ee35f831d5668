"""The verb `anydepth tune`: thresholds for every budget."""

from typing import Annotated

import typer

from anydepth.cli.options import BatchTokens, Beam, LengthPenalty, RunFolder, examples, say, tell_if_unfinished
from anydepth.exits.names import THRESHOLD_FAMILIES
from anydepth.limits import LARGEST_SEED, MOST_BLOCKS, MOST_CANDIDATES

EXAMPLES = examples(
    "anydepth tune runs/demo/exits --valid runs/demo/corpus/valid --candidates 300 --segment 1 --beam 1"
)


def register(app: typer.Typer) -> None:
    app.command(epilog=EXAMPLES)(tune)


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
    from anydepth.search.decoding import DecodingOptions
    from anydepth.tuning.tune import TuneSettings, tune_run

    settings = TuneSettings(
        method=method,
        candidates=candidates,
        segment=segment,
        decoded=decoded,
        seed=seed,
        decoding=DecodingOptions(beam=beam, length_penalty=length_penalty, batch_tokens=batch_tokens),
    )
    tell_if_unfinished(run)
    found = tune_run(run, valid, policy, settings, say=say)
    print(points_json(found) if as_json else points_table(found))
