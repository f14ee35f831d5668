"""The verb `anydepth tune`: thresholds for every budget."""

from typing import TYPE_CHECKING, Annotated

import typer

from anydepth.cli.options import (
    BatchTokens,
    Beam,
    Int8,
    LengthPenalty,
    RunFolder,
    VocabularyHelp,
    examples,
    say,
    tell_if_unfinished,
)
from anydepth.errors import UsageError
from anydepth.exits.names import THRESHOLD_FAMILIES
from anydepth.limits import LARGEST_SEED, MOST_BLOCKS, MOST_CANDIDATES, MOST_ROUNDS, MOST_UPDATES

if TYPE_CHECKING:
    from anydepth.runs.operating_points import Judge, Objective

EXAMPLES = examples(
    "anydepth tune runs/demo/exits --valid runs/demo/corpus/valid --candidates 300 --segment 0.1 --beam 1",
    "anydepth tune runs/demo/exits --clock-only --batch 1",
)

Valid = Annotated[
    str | None,
    typer.Option(
        metavar="PREFIX",
        help="Held-out text to tune on: PREFIX.de and PREFIX.en, plain or .gz. Needed unless --clock-only.",
    ),
]
Policies = Annotated[
    list[str] | None,
    typer.Option(
        help=f"One of {', '.join(THRESHOLD_FAMILIES)}[:K]; may be repeated. Default: geometric if the run has it, else "
        "confidence."
    ),
]
Vocabularies = Annotated[
    list[str] | None,
    typer.Option(
        "--vocabulary", help=f"{VocabularyHelp}: the words to choose from; may be repeated. Default: the run's own."
    ),
]
ObjectiveName = Annotated[
    str | None,
    typer.Option(
        "--objective",
        metavar="COST",
        help="The cost to keep low: time, flops or average-exit. Default: time if the native engine is there, else "
        "flops.",
    ),
]
JudgeName = Annotated[
    str,
    typer.Option(
        "--judge",
        metavar="WHOM",
        help="What BLEU compares with: references, or full-depth for what full depth makes of the same sentences, "
        "which tells points apart that references do not.",
    ),
]
Method = Annotated[
    str,
    typer.Option(
        help="replay: score all candidates on a record, decode the best. decode: decode all, as the paper does."
    ),
]
Candidates = Annotated[int, typer.Option(min=1, max=MOST_CANDIDATES, help="Threshold vectors to try.")]
Segment = Annotated[
    float | None,
    typer.Option(
        min=0.01,
        max=float(MOST_BLOCKS),
        help="Width of the segments of the cost; each gets a point. Default: 0.05 of full depth's, or 0.25 exits.",
    ),
]
Decoded = Annotated[
    int | None,
    typer.Option(
        min=1,
        max=MOST_CANDIDATES,
        help="Candidates that replay decodes in each segment. Default: 3.",
    ),
]
Seed = Annotated[int, typer.Option(min=0, max=LARGEST_SEED, help="Another seed tries other candidates.")]
BatchSize = Annotated[
    int | None,
    typer.Option(
        "--batch", min=1, max=MOST_UPDATES, help="Sentences searched at a time while timing. Default: --batch-tokens."
    ),
]
Rounds = Annotated[int, typer.Option(min=1, max=MOST_ROUNDS, help="How often everything is timed, in turn.")]
Timed = Annotated[int, typer.Option(min=1, max=MOST_UPDATES, help="Sentences that are timed.")]
ClockOnly = Annotated[
    bool, typer.Option("--clock-only", help="Only measure the times of the stored points again, on this machine.")
]
Oracle = Annotated[
    bool,
    typer.Option(
        "--oracle", help="Only tell, without storing it, what exits could gain that agree with full depth for free."
    ),
]
Json = Annotated[bool, typer.Option("--json", help="The points as one JSON object for each policy and vocabulary.")]


def register(app: typer.Typer) -> None:
    app.command(epilog=EXAMPLES)(tune)


def tune(
    run: RunFolder,
    valid: Valid = None,
    policy: Policies = None,
    vocabulary: Vocabularies = None,
    objective: ObjectiveName = None,
    judge: JudgeName = "references",
    method: Method = "replay",
    candidates: Candidates = 10_000,
    segment: Segment = None,
    decoded: Decoded = None,
    seed: Seed = 1,
    beam: Beam = None,
    length_penalty: LengthPenalty = None,
    batch_tokens: BatchTokens = None,
    batch: BatchSize = None,
    int8: Int8 = False,
    rounds: Rounds = 5,
    timed: Timed = 200,
    clock_only: ClockOnly = False,
    oracle: Oracle = False,
    as_json: Json = False,
) -> None:
    """Find thresholds for every budget and store them with the run, for --time, --flops,
    --average-exit and --bleu-drop."""
    from anydepth.evaluation.evaluation_table import points_json, points_table
    from anydepth.search.decoding import DecodingOptions
    from anydepth.tuning import ceiling
    from anydepth.tuning import clock_only as timing
    from anydepth.tuning.tune import TuneSettings, tune_sets

    settings = TuneSettings(
        objective=checked_objective(objective),
        judge=checked_judge(judge),
        method=method,
        candidates=candidates,
        segment=segment,
        decoded=decoded,
        seed=seed,
        decoding=DecodingOptions(beam=beam, length_penalty=length_penalty, batch_tokens=batch_tokens),
        int8=int8,
        batch=batch,
        rounds=rounds,
        timed=timed,
    )
    tell_if_unfinished(run)
    if clock_only:
        found = timing.time_run(run, valid, settings, say=say)
    elif valid is None:
        raise UsageError("tuning needs held-out text; give --valid PREFIX, as in --valid corpus/valid")
    elif oracle:
        best = ceiling.run_ceiling(run, valid, int8=int8, say=say)
        print(best.to_json() if as_json else best.describe())
        return
    else:
        found = tune_sets(run, valid, policy or [None], vocabulary or [None], settings, say=say)
    print("\n".join(points_json(each) if as_json else points_table(each) for each in found))


def checked_objective(name: str | None) -> "Objective | None":
    """The objective of that name, which must be one."""
    from anydepth.runs.operating_points import OBJECTIVES

    found = next((each for each in OBJECTIVES if each == name), None)
    if name is not None and found is None:
        raise UsageError(f"--objective {name} is unknown; use {', '.join(OBJECTIVES)}")
    return found


def checked_judge(name: str) -> "Judge":
    """The judge of that name, which must be one."""
    from anydepth.runs.operating_points import JUDGES

    found = next((each for each in JUDGES if each == name), None)
    if found is None:
        raise UsageError(f"--judge {name} is unknown; use {', '.join(JUDGES)}")
    return found
