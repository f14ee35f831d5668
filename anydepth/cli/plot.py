"""The verbs of `anydepth plot`: pictures of where a model has to think, and of what depth is
worth."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from anydepth.cli.options import (
    AverageExit,
    Beam,
    BleuDrop,
    Flops,
    PolicyName,
    RunFolder,
    TimeShare,
    examples,
    say,
    wish_of,
    wished_search,
)

if TYPE_CHECKING:
    from anydepth.inference.translator import Translation
    from anydepth.runs.operating_points import Wish

TOKENS_EXAMPLES = examples(
    "anydepth plot tokens runs/demo/exits 'Anna kommt um halb drei an.' --to tokens.png --policy geometric"
)
TRADEOFF_EXAMPLES = examples(
    "anydepth plot tradeoff runs/demo/evaluation.json runs/demo/exits/operating_points.json --to tradeoff.png"
)
POSITIONS_EXAMPLES = examples(
    "anydepth plot positions runs/demo/exits --test runs/demo/corpus/test --to positions.png --policy geometric"
)
SCORES_EXAMPLES = examples(
    "anydepth plot scores runs/demo/exits --test runs/demo/corpus/test --to scores.png --policy geometric"
)

Picture = Annotated[Path, typer.Option(metavar="FILE", help="The picture: .png, .svg or .pdf.")]
TestPrefix = Annotated[str, typer.Option(metavar="PREFIX", help="PREFIX.de, the text to translate, plain or .gz.")]


def register(app: typer.Typer) -> None:
    plot = typer.Typer(
        help="Draw where a model has to think, and what depth is worth.", no_args_is_help=True, rich_markup_mode=None
    )
    plot.command("tokens", epilog=TOKENS_EXAMPLES)(plot_tokens)
    plot.command("tradeoff", epilog=TRADEOFF_EXAMPLES)(plot_tradeoff)
    plot.command("positions", epilog=POSITIONS_EXAMPLES)(plot_positions)
    plot.command("scores", epilog=SCORES_EXAMPLES)(plot_scores)
    app.add_typer(plot, name="plot")


def plot_tokens(
    run: RunFolder,
    sentence: Annotated[str, typer.Argument(metavar="SENTENCE", help="What to translate.")],
    to: Picture,
    policy: PolicyName = None,
    average_exit: AverageExit = None,
    flops: Flops = None,
    time: TimeShare = None,
    bleu_drop: BleuDrop = None,
    beam: Beam = None,
) -> None:
    """Draw the exit and the score of every token of a translation (figures 6 and 7 of the
    paper)."""
    from anydepth.figures import sentence as sentence_pictures
    from anydepth.figures import style
    from anydepth.inference.translator import Translator
    from anydepth.search.decoding import DecodingOptions

    style.check_figure_path(to)
    translator = Translator.load(run)
    decoding = DecodingOptions(beam=beam)
    wish = wish_of(average_exit, flops, bleu_drop, time)
    chosen, decoding = wished_search(translator, policy, wish, decoding)
    (translation,) = translator.translate_lines([sentence], chosen, decoding)
    style.save_figure(sentence_pictures.plot_tokens(translation, blocks=translator.model.blocks, source=sentence), to)
    print(translation.line)


def plot_tradeoff(
    measurements: Annotated[
        list[Path],
        typer.Argument(metavar="FILE...", help="What `evaluate --json` printed, or a run's operating_points.json."),
    ],
    to: Picture,
) -> None:
    """Draw BLEU against the average exit and against FLOPs from stored measurements (figures 3 and
    5 of the paper)."""
    from anydepth.figures import curves, style, tradeoff

    style.save_figure(tradeoff.plot_tradeoff(curves.read_points(measurements)), to)


def plot_positions(
    run: RunFolder,
    test: TestPrefix,
    to: Picture,
    policy: PolicyName = None,
    average_exit: AverageExit = None,
    flops: Flops = None,
    time: TimeShare = None,
    bleu_drop: BleuDrop = None,
    beam: Beam = None,
) -> None:
    """Draw the exits at the start and at the end of sentences (figure 8 of the paper)."""
    from anydepth.figures import positions, style

    style.check_figure_path(to)
    wish = wish_of(average_exit, flops, bleu_drop, time)
    translations, blocks = translated_test(run, test, policy=policy, wish=wish, beam=beam)
    style.save_figure(positions.plot_positions([each.exits for each in translations], blocks=blocks), to)


def plot_scores(
    run: RunFolder,
    test: TestPrefix,
    to: Picture,
    policy: PolicyName = None,
    average_exit: AverageExit = None,
    flops: Flops = None,
    time: TimeShare = None,
    bleu_drop: BleuDrop = None,
    beam: Beam = None,
) -> None:
    """Draw the joint histogram of scores and exits (figure 9 of the paper)."""
    from anydepth.figures import probabilities, style

    style.check_figure_path(to)
    wish = wish_of(average_exit, flops, bleu_drop, time)
    translations, blocks = translated_test(run, test, policy=policy, wish=wish, beam=beam)
    style.save_figure(
        probabilities.plot_scores(
            [each.exits for each in translations], [each.scores for each in translations], blocks=blocks
        ),
        to,
    )


def translated_test(
    run: Path, test: str, *, policy: str | None, wish: "Wish", beam: int | None
) -> "tuple[list[Translation], int]":
    """The translations of a test set's source side, and the number of blocks."""
    from anydepth.inference.translator import Translator
    from anydepth.runs.run import Run
    from anydepth.search.decoding import DecodingOptions
    from anydepth.text.corpus import open_lines, side_path

    translator, decoding = Translator.load(run), DecodingOptions(beam=beam)
    chosen, decoding = wished_search(translator, policy, wish, decoding)
    lines = list(open_lines(side_path(test, Run(run).data_note()["source_lang"])))
    say(f"translating {len(lines):,} sentences with {chosen.name}")
    return translator.translate_lines(lines, chosen, decoding), translator.model.blocks
