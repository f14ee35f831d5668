"""The verb `anydepth export`: models for other programs."""

from pathlib import Path
from typing import Annotated

import typer

from anydepth.cli.options import RunFolder, examples, say, tell_if_unfinished
from anydepth.errors import UsageError
from anydepth.inference.engines.names import enumerated

FORMATS = ("onnx", "ctranslate2", "huggingface")
EXAMPLES = examples(
    "anydepth export runs/demo/exits --format onnx  # needs pip install 'anydepth[onnx]'",
    "anydepth export runs/demo/exits --format ctranslate2 --exit 3 --int8  # needs pip install 'anydepth[ctranslate2]'",
    "anydepth export runs/opus --format huggingface",
)


def register(app: typer.Typer) -> None:
    app.command(epilog=EXAMPLES)(export)


def export(
    run: RunFolder,
    to_format: Annotated[str, typer.Option("--format", metavar="FORMAT", help=f"One of {', '.join(FORMATS)}.")],
    exit: Annotated[
        int | None, typer.Option(metavar="N", help="Where to cut the model (not for onnx). Default: the last exit.")
    ] = None,
    int8: Annotated[
        bool, typer.Option("--int8", help="Weights of 8 bits: smaller, faster, and a little different.")
    ] = False,
    to: Annotated[
        Path | None, typer.Option(help="Folder for the model (not for onnx). Default: RUN/export/FORMAT-exitN.")
    ] = None,
) -> None:
    """Write the model for another program: all its exits for ONNX Runtime, or one of them for
    CTranslate2 or Hugging Face's transformers."""
    from anydepth.runs.run import Run

    if to_format not in FORMATS:
        raise UsageError(f"--format {to_format}: models are exported as {enumerated(FORMATS, 'or')}")
    tell_if_unfinished(run)
    if to_format == "onnx":
        from anydepth.inference.export.onnx_folder import export_onnx

        if exit is not None or to is not None:
            raise UsageError(
                "--exit and --to belong to --format ctranslate2 and huggingface; an ONNX export has all exits and "
                "stays with its run"
            )
        print(export_onnx(Run(run), int8=int8, say=say))
        return
    exit = Run(run).config.model.blocks if exit is None else exit
    if to_format == "huggingface":
        from anydepth.inference.export.huggingface_folder import export_huggingface

        if int8:
            raise UsageError("--int8 belongs to --format onnx and ctranslate2; MarianMT's format has weights of floats")
        print(export_huggingface(Run(run), exit=exit, to=to, say=say))
        return
    from anydepth.inference.export.ctranslate2_folder import export_ctranslate2

    print(export_ctranslate2(Run(run), exit=exit, quantization="int8" if int8 else None, to=to, say=say))
