"""The verb `anydepth translate`: lines in, lines out."""

import json
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Annotated

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
    PolicyName,
    RunFolder,
    TimeShare,
    Vocabulary,
    examples,
    input_lines,
    say,
    tell_if_unfinished,
    wish_of,
    wished_search,
)
from anydepth.errors import UsageError
from anydepth.inference.engines.names import AUTOMATIC
from anydepth.limits import MOST_BEAM

if TYPE_CHECKING:
    from anydepth.inference.translator import Translation, Translator

EXAMPLES = examples(
    "echo 'Anna kommt um halb drei in Berlin an.' | anydepth translate runs/demo/model --policy fixed:3",
    "echo 'Anna kommt um halb drei in Berlin an.' | anydepth translate runs/demo/exits --average-exit 2 --show-exits",
)


def register(app: typer.Typer) -> None:
    app.command(epilog=EXAMPLES)(translate)


def translate(
    run: RunFolder,
    source: Annotated[
        str, typer.Argument(metavar="FILE", help="Text to translate, one sentence per line; - is standard input.")
    ] = "-",
    policy: PolicyName = None,
    average_exit: AverageExit = None,
    flops: Flops = None,
    time: TimeShare = None,
    bleu_drop: BleuDrop = None,
    beam: Beam = None,
    length_penalty: LengthPenalty = None,
    best: Annotated[
        int, typer.Option(min=1, max=MOST_BEAM, help="Translations to give for each line (with --json).")
    ] = 1,
    batch_tokens: BatchTokens = None,
    vocabulary: Vocabulary = None,
    engine: EngineName = AUTOMATIC,
    int8: Int8 = False,
    show_exits: Annotated[
        bool, typer.Option("--show-exits", help="Each word in the colour of its exit, with the exit behind it.")
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Text, tokens, exits and scores as one JSON object per line.")
    ] = False,
) -> None:
    """Translate lines; one output line for every input line, in order, as soon as they are
    ready."""
    from anydepth.inference.translator import Translator
    from anydepth.search.decoding import DecodingOptions

    if best > 1 and not as_json:
        raise UsageError(f"--best {best} gives several translations per line, which needs --json")
    if show_exits and as_json:
        raise UsageError("--show-exits is for people and --json for machines; choose one (the JSON has the exits too)")
    translator = Translator.load(run, engine=engine, int8=int8)
    tell_if_unfinished(run)
    decoding = DecodingOptions(
        beam=beam, length_penalty=length_penalty, batch_tokens=batch_tokens, vocabulary=vocabulary
    )
    wish = wish_of(average_exit, flops, bleu_drop, time)
    chosen, decoding = wished_search(translator, policy, wish, decoding)
    lines = translator.translate_stream(
        input_lines(source),
        policy=chosen,
        beam=beam,
        length_penalty=length_penalty,
        best=best,
        batch_tokens=batch_tokens,
        vocabulary=decoding.vocabulary,
    )
    if show_exits:
        print_exits(warned(lines, translator), blocks=translator.model.blocks)
        return
    for translation in warned(lines, translator):
        print(json.dumps(translation.to_json(), ensure_ascii=False) if as_json else translation.line, flush=True)


def warned(lines: "Iterable[Translation]", translator: "Translator") -> "Iterator[Translation]":
    """The translations, with a warning for each whose source was cut."""
    for number, translation in enumerate(lines, 1):
        if translation.was_truncated:
            say(
                f"warning: line {number:,} is longer than {translator.model.config.max_length} tokens; its beginning "
                "was translated"
            )
        yield translation


def print_exits(lines: "Iterable[Translation]", *, blocks: int) -> None:
    """The words in the colours of their exits on stdout, the legend with the average exit on
    stderr."""
    from rich.console import Console

    from anydepth.inference.show import exit_legend, shown_exits

    output, seen = Console(highlight=False, soft_wrap=True), []
    for translation in lines:
        output.print(shown_exits(translation, blocks=blocks))
        seen.append(translation)
    Console(stderr=True, highlight=False, soft_wrap=True).print(exit_legend(seen, blocks=blocks))
