"""The verb `anydepth prepare`: parallel text becomes a vocabulary and token files."""

from pathlib import Path
from typing import Annotated

import typer

from anydepth.cli.options import examples, say
from anydepth.limits import MOST_JOBS, MOST_LENGTH, MOST_PIECES, MOST_UPDATES

EXAMPLES = examples(
    "anydepth prepare --source-lang de --target-lang en --train corpus/train --valid corpus/valid --test "
    "corpus/test --vocab-size 999 --to data"
)


def register(app: typer.Typer) -> None:
    app.command(epilog=EXAMPLES)(prepare)


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
    jobs: Annotated[
        int | None,
        typer.Option(
            min=1, max=MOST_JOBS, help="Processes that encode; what they write is the same. Default: one for each core."
        ),
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace prepared data at --to.")] = False,
) -> None:
    """Turn parallel text into a vocabulary and token files."""
    from anydepth.limits import usable_cores
    from anydepth.text.prepare import PrepareSettings
    from anydepth.text.prepare import prepare as prepare_text

    settings = PrepareSettings(
        source_lang=source_lang,
        target_lang=target_lang,
        train=train,
        valid=valid,
        test=test,
        vocab_size=vocab_size,
        joint=joint,
        max_tokens=max_tokens,
        max_ratio=max_ratio,
        sample=sample,
        tokenizer_from=None if tokenizer_from is None else str(tokenizer_from),
    )
    prepare_text(settings, to, overwrite=overwrite, jobs=jobs or usable_cores(), say=say)
