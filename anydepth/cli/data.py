"""The verbs of `anydepth data`: public corpora from their official archives to text that `anydepth
prepare` takes."""

from pathlib import Path
from typing import Annotated

import typer

from anydepth.cli.options import examples, say
from anydepth.limits import MOST_JOBS, MOST_LENGTH

IWSLT14_EXAMPLES = examples(
    "anydepth data iwslt14 --archive de-en.tgz --to iwslt14  # needs pip install 'anydepth[recipes]'"
)
WMT14_EN_FR_EXAMPLES = examples(
    "anydepth data wmt14-en-fr --archive downloads --to wmt14 --jobs 8  # needs pip install 'anydepth[recipes]'",
    "anydepth data wmt14-en-fr --archive training-giga-fren.tar --archive others --to other-wmt14",
)
MULTI30K_EXAMPLES = examples(
    "anydepth data multi30k --archive dataset/data/task1/raw --to multi30k",
    "anydepth data multi30k --archive training.tar.gz --archive validation.tar.gz --archive "
    "mmt16_task1_test.tar.gz --to task1",
)

Archives = Annotated[
    list[Path],
    typer.Option(
        "--archive",
        metavar="FILE|DIR",
        help="An official archive, or a folder that has them, packed or not; may be repeated.",
    ),
]
To = Annotated[
    Path, typer.Option(metavar="DIR", help="Folder for {train,valid,test} in both languages, and recipe.json.")
]
Jobs = Annotated[int, typer.Option(min=1, max=MOST_JOBS, help="Processes that make tokens; the result is the same.")]


def register(app: typer.Typer) -> None:
    data = typer.Typer(
        help="Turn the official archives of public corpora into text files.",
        no_args_is_help=True,
        rich_markup_mode=None,
    )
    data.command("iwslt14", epilog=IWSLT14_EXAMPLES)(iwslt14)
    data.command("wmt14-en-fr", epilog=WMT14_EN_FR_EXAMPLES)(wmt14_en_fr)
    data.command("multi30k", epilog=MULTI30K_EXAMPLES)(multi30k)
    app.add_typer(data, name="data")


def iwslt14(
    archive: Archives,
    to: To,
    keep_case: Annotated[
        bool, typer.Option("--keep-case", help="Leave capital letters; the paper's text has none.")
    ] = False,
    jobs: Jobs = 1,
) -> None:
    """IWSLT'14 German-English (de-en.tgz): 160,239 / 7,283 / 6,750 pairs of TED talks, Moses
    tokens, lower case."""
    from anydepth.text.recipes.iwslt14 import write_iwslt14

    print(write_iwslt14(archive, to, keep_case=keep_case, jobs=jobs, say=say).next)


def wmt14_en_fr(
    archive: Archives,
    to: To,
    max_words: Annotated[
        int, typer.Option(min=1, max=MOST_LENGTH, help="Drop training pairs with a side of more words.")
    ] = 175,
    jobs: Jobs = 1,
) -> None:
    """WMT'14 English-French (five training archives and test-full.tgz): about 35.5 million pairs,
    Moses tokens."""
    from anydepth.text.recipes.wmt14_en_fr import write_wmt14_en_fr

    print(write_wmt14_en_fr(archive, to, max_words=max_words, jobs=jobs, say=say).next)


def multi30k(
    archive: Archives,
    to: To,
    source_lang: Annotated[str, typer.Option(help="cs, de, en or fr.")] = "de",
    target_lang: Annotated[str, typer.Option(help="cs, de, en or fr.")] = "en",
) -> None:
    """Multi30k, task 1: 29,000 / 1,014 / 1,000 captions of pictures as they are, test being flickr
    2016."""
    from anydepth.text.recipes.multi30k import write_multi30k

    print(write_multi30k(archive, to, source_lang=source_lang, target_lang=target_lang, say=say).next)
