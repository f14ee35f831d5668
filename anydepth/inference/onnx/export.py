"""A run's model as a folder of ONNX graphs with a manifest, and the check that such a folder is whole and up to date."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from anydepth.atomic import replacing_folder, write_bytes, write_text
from anydepth.errors import RunError, UsageError
from anydepth.exits.adaptive import load_model
from anydepth.inference.points import weights_fingerprint
from anydepth.model.run import Run
from anydepth.model.transformer import Transformer
from anydepth.text.prepare import file_hash

FORMAT = 1
OPSET = 17
MANIFEST_NAME = "manifest.json"
NEEDS_PACKAGES = "ONNX needs packages that are not installed ({missing}); install them with: pip install 'anydepth[onnx]'"
DESCRIPTION = """\
A translation model whose decoder can stop after any block, as ONNX graphs (standard operators, opset {opset}, weights {precision}).
Names in brackets are axes; those with names may have any length. N = {blocks} blocks, {heads} heads. Tokens are int64, masks bool
(true where something is), all else float32.

encoder.onnx       source [sentence, source], source_mask [sentence, source] -> memory [sentence, source, {encoder_dim}]
                   Tokens end with </s> (2); padding may hold any token.
embedding.onnx     tokens [row], position [1] -> states [row, {dim}]
                   A row is a hypothesis. The first token is <s> (1), at position 0.
source<n>.onnx     memory -> keys, values [sentence, {heads}, source, {head_dim}]
                   What block n needs of the source; once a sentence, before block n first runs for it.
keys_values<n>.onnx  states [place, {dim}] -> keys, values [place, {heads}, {head_dim}]
                   What block n needs of a position: of the state that enters the block there or, where the token left below block n,
                   of the state that it left with. This may wait until a later token of the row runs block n.
block<n>.onnx      states [row, {dim}], keys, values [row, {heads}, time, {head_dim}], mask [time], source_keys, source_values,
                   source_mask, grid [sentence, slot], place [row] -> new_states [row, {dim}]
                   keys and values are those of all positions up to and including the present one; mask hides unused room.
                   grid tells which row stands in each slot of a sentence (0 in slots to spare), and place where in the flattened grid
                   each row stands: with one row a sentence [[0], [1], ...] and [0, 1, ...].
classifier<n>.onnx states [row, {dim}] -> logits [row, {vocab}]
                   The scores of all words for tokens that leave at exit n; {classifiers}.
"""


def export_folder(run: Run, *, int8: bool) -> Path:
    """Where the run's export is."""
    return run.folder / "export" / ("onnx-int8" if int8 else "onnx")


def export_onnx(run: Run, *, int8: bool, say: Callable[[str], None]) -> Path:
    """The folder that now holds the run's model as ONNX graphs, with a manifest and a description."""
    model, folder = load_model(run), export_folder(run, int8=int8)
    with replacing_folder(folder) as temporary:
        graphs = write_graphs(model, temporary, int8=int8)
        write_text(temporary / "README.txt", describe_graphs(model, int8=int8))
        manifest = {
            "format": FORMAT,
            "opset": OPSET,
            "precision": _precision(int8),
            "weights": weights_fingerprint(run),
            "files": {file.name: file_hash(file) for file in sorted(temporary.iterdir())},
        }
        write_text(temporary / MANIFEST_NAME, json.dumps(manifest, indent=1) + "\n")
        size = sum(file.stat().st_size for file in temporary.iterdir())
    say(f"{folder}: {len(graphs)} ONNX graphs, {_precision(int8)}, {size / 2**20:.1f} MB; README.txt tells what they take and give")
    return folder


def write_graphs(model: Transformer, folder: Path, *, int8: bool) -> dict[str, Path]:
    """Writes the graphs of `model` into the existing `folder`; the files by the names of the graphs."""
    try:
        from anydepth.inference.onnx.graphs import make_graphs
    except ModuleNotFoundError as error:
        raise UsageError(NEEDS_PACKAGES.format(missing=error.name)) from error
    files = {}
    for name, graph in make_graphs(model, opset=OPSET, int8=int8):
        files[name] = folder / f"{name}.onnx"
        write_bytes(files[name], graph)
    return files


def describe_graphs(model: Transformer, *, int8: bool) -> str:
    """What each graph takes and gives."""
    config = model.config
    return DESCRIPTION.format(
        opset=OPSET,
        precision=_precision(int8),
        blocks=config.blocks,
        heads=config.heads,
        head_dim=config.decoder.dim // config.heads,
        dim=config.decoder.dim,
        encoder_dim=config.encoder.dim,
        vocab=model.target_embedding.num_embeddings,
        classifiers="one for each exit" if config.classifiers == "untied" else "one file serves all exits",
    )


def _precision(int8: bool) -> str:
    return "int8" if int8 else "float32"


def checked_export(run: Run, *, int8: bool) -> dict[str, Path]:
    """The graphs of the run's export by name; one that is missing, damaged or of other weights is refused."""
    folder = export_folder(run, int8=int8)
    again = f"`anydepth export {run.folder} --format onnx{' --int8' if int8 else ''}`"
    if not (folder / MANIFEST_NAME).exists():
        raise RunError(f"{run.folder} has no {'int8 ' if int8 else ''}ONNX export; make it with {again}")
    manifest = _read_manifest(folder / MANIFEST_NAME, again)
    if not run.weights_file.exists() or manifest["weights"] != weights_fingerprint(run):
        raise RunError(f"{folder} was exported from other weights than {run.folder} has now; export again with {again}")
    for name, expected in manifest["files"].items():
        file = folder / name
        if not file.exists():
            raise RunError(f"{file} is missing; export again with {again}")
        if file_hash(file) != expected:
            raise RunError(f"{file} is damaged (its checksum differs); export again with {again}")
    return {Path(name).stem: folder / name for name in manifest["files"] if name.endswith(".onnx")}


def _read_manifest(path: Path, again: str) -> dict[str, Any]:
    try:
        manifest: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        is_right = {"weights", "files"} <= manifest.keys() and isinstance(manifest["files"], dict)
    except (OSError, ValueError, AttributeError) as error:
        raise RunError(f"{path} cannot be read ({error}); export again with {again}") from error
    if not is_right or manifest.get("format") != FORMAT:
        raise RunError(
            f"{path} is not a manifest of this version (format {manifest.get('format')}, not {FORMAT}); export again with {again}"
        )
    return manifest
