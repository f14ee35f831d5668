"""The verb `anydepth evaluate`: what policies are worth on a test set."""

from pathlib import Path
from typing import Annotated

import typer

from anydepth.cli.options import (
    AverageExit,
    BatchTokens,
    Beam,
    BleuDrop,
    EngineName,
    Flops,
    Int8,
    LengthPenalty,
    PolicyHelp,
    RunFolder,
    TimeShare,
    Vocabulary,
    examples,
    say,
    tell_if_unfinished,
    wish_of,
)
from anydepth.inference.engines.names import AUTOMATIC

EXAMPLES = examples(
    "anydepth evaluate runs/demo/model --test runs/demo/corpus/test --policy fixed:1 --policy fixed:6",
    "anydepth evaluate runs/demo/exits --test runs/demo/corpus/test --average-exit 2 --against fixed:2",
)


def register(app: typer.Typer) -> None:
    app.command(epilog=EXAMPLES)(evaluate)


def evaluate(
    run: RunFolder,
    test: Annotated[str, typer.Option(metavar="PREFIX", help="PREFIX.de and PREFIX.en, plain or .gz.")],
    policy: Annotated[
        list[str] | None, typer.Option(help=f"{PolicyHelp}; may be repeated. Default: full depth.")
    ] = None,
    each_exit: Annotated[bool, typer.Option("--each-exit", help="Every fixed exit, then uniform exits.")] = False,
    average_exit: AverageExit = None,
    flops: Flops = None,
    time: TimeShare = None,
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
    vocabulary: Vocabulary = None,
    engine: EngineName = AUTOMATIC,
    int8: Int8 = False,
    output: Annotated[
        Path | None, typer.Option(help="Also write the translations of the last policy to this file.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Everything as one JSON object.")] = False,
) -> None:
    """Measure quality, depth, cost and speed on a test set."""
    from anydepth.evaluation.evaluate import EvaluationSettings, evaluate_run
    from anydepth.evaluation.evaluation_table import evaluation_json, evaluation_table
    from anydepth.search.decoding import DecodingOptions

    settings = EvaluationSettings(
        wish=wish_of(average_exit, flops, bleu_drop, time),
        output=output,
        against=against,
        is_counted=executed,
        decoding=DecodingOptions(
            beam=beam, length_penalty=length_penalty, batch_tokens=batch_tokens, vocabulary=vocabulary
        ),
        engine=engine,
        int8=int8,
    )
    tell_if_unfinished(run)
    evaluation = evaluate_run(run, test, [*(policy or []), *(["each"] if each_exit else [])], settings, say=say)
    print(evaluation_json(evaluation) if as_json else evaluation_table(evaluation))
