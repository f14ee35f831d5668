"""The verb `anydepth vocabulary`: fewer words to choose from, without a loss."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from anydepth.cli.options import BatchTokens, Beam, LengthPenalty, RunFolder, examples, say, tell_if_unfinished
from anydepth.limits import LARGEST_SEED, MOST_MINUTES, MOST_PIECES, MOST_UPDATES
from anydepth.vocabulary.names import LEARNED, TABLE

if TYPE_CHECKING:
    from anydepth.runs.run import Run

EXAMPLES = examples(
    "anydepth vocabulary runs/demo/model --valid runs/demo/corpus/valid",
    "anydepth vocabulary runs/demo/model --valid runs/demo/corpus/valid --learned --updates 100",
)
PER_PIECE = 100  # that a table holds, unless a larger size is asked for

Valid = Annotated[
    str, typer.Option(metavar="PREFIX", help="Held-out text to check on: PREFIX.de and PREFIX.en, plain or .gz.")
]
Learned = Annotated[
    bool, typer.Option("--learned", help="Train a selection on the encoder's states, in place of a lexical table.")
]
Size = Annotated[
    list[float] | None,
    typer.Option(
        metavar="K|P",
        help="Size to measure, as in table:K or learned:P; may be repeated. Default: 20, 50, 100, or 0.03, 0.01, "
        "0.003.",
    ),
]
Tolerance = Annotated[float, typer.Option(min=0.0, max=100.0, help="BLEU that the chosen setting may cost.")]
Frequent = Annotated[int, typer.Option(min=0, max=MOST_PIECES, help="Frequent words that are always there.")]
Pairs = Annotated[
    int, typer.Option(min=1, max=MOST_UPDATES, help="Training pairs that the table is learned from, at most.")
]
Rounds = Annotated[int, typer.Option(min=1, max=100, help="Rounds in which the table is learned.")]
Updates = Annotated[int, typer.Option(min=1, max=MOST_UPDATES, help="Updates of the learned selection, at most.")]
Minutes = Annotated[
    float, typer.Option(min=0.001, max=MOST_MINUTES, help="Minutes of training the learned selection, at most.")
]
Seed = Annotated[int, typer.Option(min=0, max=LARGEST_SEED, help="Another seed learns from other pairs.")]
Data = Annotated[
    Path | None,
    typer.Option(metavar="DIR", help="Prepared text in the run's vocabulary. Default: what the run was trained on."),
]


def register(app: typer.Typer) -> None:
    app.command(epilog=EXAMPLES)(vocabulary)


def vocabulary(
    run: RunFolder,
    valid: Valid,
    learned: Learned = False,
    size: Size = None,
    tolerance: Tolerance = 0.1,
    frequent: Frequent = 100,
    pairs: Pairs = 1_000_000,
    rounds: Rounds = 5,
    updates: Updates = 2000,
    minutes: Minutes = 10.0,
    seed: Seed = 1,
    data: Data = None,
    beam: Beam = None,
    length_penalty: LengthPenalty = None,
    batch_tokens: BatchTokens = None,
    as_json: Annotated[bool, typer.Option("--json", help="The measurements as one JSON object.")] = False,
) -> None:
    """Learn which words a sentence may need, measure what choosing among these alone costs, and
    store the smallest choice that keeps the BLEU of all words as the run's default."""
    from anydepth.evaluation.vocabulary_check import CheckSettings, find_vocabulary, vocabulary_json, vocabulary_table
    from anydepth.runs.word_selections import TableSettings, learn_table
    from anydepth.search.decoding import DecodingOptions
    from anydepth.training.word_selection import SelectionTraining, train_selection

    decoding = DecodingOptions(beam=beam, length_penalty=length_penalty, batch_tokens=batch_tokens)
    settings = CheckSettings.of_kind(LEARNED if learned else TABLE, size or (), tolerance=tolerance, decoding=decoding)
    training = SelectionTraining(updates=updates, minutes=minutes, frequent=frequent, seed=seed)
    largest = PER_PIECE if learned else max(PER_PIECE, *map(int, size or [0]))
    table = TableSettings(pairs=pairs, rounds=rounds, frequent=frequent, seed=seed, per_piece=largest)

    def learn(of: "Run") -> None:
        if learned:
            train_selection(of, training, data_folder=data, say=say)
        else:
            learn_table(of, table, data_folder=data, say=say)

    tell_if_unfinished(run)
    found = find_vocabulary(run, valid, settings, learn, say=say)
    print(vocabulary_json(found) if as_json else vocabulary_table(found))
