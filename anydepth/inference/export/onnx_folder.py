"""A run as a folder of ONNX graphs and what else translating needs, and the check that such a
folder is whole and up to date."""

import json
from dataclasses import dataclass
from pathlib import Path

from anydepth.config.schema import Config
from anydepth.errors import RunError, UsageError
from anydepth.exits.adaptive import AdaptiveTransformer
from anydepth.exits.halting import GeometricHalting, Halting, MultinomialHalting, SequenceHalting
from anydepth.files.atomic import put_back, replacing_folder, write_bytes, write_text
from anydepth.files.checksums import checked_object, file_hash, with_checksum
from anydepth.files.reading import MEDIUM, checked, plain_name, read_bytes, shown
from anydepth.inference.export.huggingface_text import VOCABULARY_NAME, text_files
from anydepth.messages.say import Say
from anydepth.runs.fingerprints import weights_fingerprint
from anydepth.runs.models import load_model
from anydepth.runs.operating_points import kept_points
from anydepth.runs.run import Run, changing

FORMAT = 2
OPSET = 17
MANIFEST_NAME = "manifest.json"
NEEDS_PACKAGES = (
    "ONNX needs packages that are not installed ({missing}); install them with: pip install 'anydepth[onnx]'"
)
DESCRIPTION = """\
A translation model whose decoder can stop after any block, as ONNX graphs (standard operators,
opset {opset}, weights {precision}). Names in brackets are axes; those with names may have any
length. N = {blocks} blocks, {heads} heads. Tokens are int64, masks bool (true where something is),
all else float32.

encoder.onnx       source [sentence, source], source_mask [sentence, source]
                   -> memory [sentence, source, {encoder_dim}]
                   Tokens end with </s> (2); padding may hold any token.
embedding.onnx     tokens [row], position [1] -> states [row, {dim}]
                   A row is a hypothesis. The first token is <s> (1), at position 0.
source<n>.onnx     memory -> keys, values [sentence, {heads}, source, {head_dim}]
                   What block n needs of the source; once per sentence, before block n first runs for
                   it.
keys_values<n>.onnx  states [place, {dim}] -> keys, values [place, {heads}, {head_dim}]
                   What block n needs of a position: {attended}. This may wait until a
                   later token of the row runs block n.{shared}
block<n>.onnx      states [row, {dim}], keys, values [row, {heads}, time, {head_dim}], mask [time],
                   source_keys, source_values, source_mask, grid [sentence, slot], place [row]
                   -> new_states [row, {dim}]
                   keys and values are those of all positions up to and including the present one;
                   mask hides unused room. grid tells which row stands in each slot of a sentence (0
                   in slots to spare), and place where in the flattened grid each row stands: with
                   one row per sentence [[0], [1], ...] and [0, 1, ...].
classifier<n>.onnx states [row, {dim}] -> logits [row, {vocab}]
                   The scores of all words for tokens that leave at exit n; {classifiers}.
{adapters}{halting}
{text}
Greedy translation of one sentence: run encoder, and source<n> for all n. Begin with the token 1.
For each position run embedding, then for n = 1, 2, ... keys_values<n>, whose result joins those of
earlier positions, and block<n>, until the token leaves. The results of keys_values<n> for the blocks
above are needed too, now or later. The classifier of the exit scores
the next token: the highest, those of 0, 1 and 3 apart, which are never produced. The token 2 ends
the translation.

{points}
{words}"""
# What block n needs of a position, by what blocks attend to.
ENTERING = """\
of the state that enters the block there or,
                   where the token left below block n, of the state that it left with"""
AFTER_BLOCK_1 = """\
of the state that enters the block there for n = 1,
                   and of the state after block 1 for all others"""
SHARED = """
                   There are none of it and of source<n> for n > 2: those blocks take the keys and
                   values that these two made for block 2."""
# What the description says of the tokenizer: of a run that was trained here, and of an adopted one.
OWN_TEXT = """\
tokenizer*.model   SentencePiece models, of the source and of the target or of both. A text is
                   encoded with a space put before it, and decoded tokens lose their first space.
"""
ADOPTED_TEXT = """\
vocab.json         The token of each piece, in the numbering of these graphs, which is not that of the
                   folder that the model was adopted from. target_vocab.json, where it is there, has
                   the target's. A piece that is missing is <unk>, a word like any other here.
source.spm         The SentencePiece models of that folder, which cut texts into these pieces. A
target.spm         leading >>xx<< is a piece of its own. transformers' MarianTokenizer loads all of
                   these, with tokenizer_config.json, and does both.
"""
# What the description says of adapters, where there are any.
ADAPTERS = """\
adapter<n>.onnx    states [row, {dim}] -> scored_states [row, {dim}]
                   What the classifier of exit n < N is given instead of the states themselves, for a
                   word or a look at the words' probabilities. Nothing else is: keys_values<n>,
                   block<n> and halting take the states as they are. Float32 in every export.
"""
# What the description says of halting.onnx, by the kind of the module.
GEOMETRIC = """\
halting.onnx       states [row, {dim}] -> stop_probability [row]
                   Of a token's states after block n, for each n < N. The token leaves after the
                   first block n whose stop_probability is greater than the n-th of N - 1 thresholds
                   (see the end), else after block N. A threshold of 0 always stops. Float32 in
                   every export.
"""
MULTINOMIAL = """\
halting.onnx       states [row, {dim}] -> exit_scores [row, {blocks}]
                   Of a token's states after block 1, once. The token leaves after block n = 1 + the
                   index of the highest score; there are no thresholds. Float32 in every export.
"""
SEQUENCE = """\
halting.onnx       memory, source_mask -> exit_scores [sentence, {blocks}]
                   Once per sentence, before its first token. All its tokens leave after block n = 1 +
                   the index of the highest score; there are no thresholds. Float32 in every export.
"""
NO_HALTING = "There is no halting.onnx: this run has no halting module.\n"
POINTS = """\
operating_points.json  Thresholds that `anydepth tune` found, a copy of the run's operating_points.json.
                   bleu, average_exit and flops_share (of the FLOPs of full depth) tell what a point
                   gave on the validation set. Its policy is a name and, after the last colon, N - 1
                   thresholds, or one number that stands for all of them. After each block n < N a
                   token leaves if a number is greater than the n-th threshold, or if that is 0;
                   where it is 0 or 1 the number need not be computed. The number is
                   stop_probability for "geometric"; for "confidence" the probability of the best
                   word, by the softmax of the logits of exit n.
"""
NO_POINTS = """\
There is no operating_points.json: `anydepth tune` finds thresholds, tells what they give on a
validation set, and stores them in the run's operating_points.json. Exports made afterwards have a
copy.
"""
WORDS = """\
lexical_table.safetensors  A copy of the run's lexical table, for those who want to score fewer words:
                   always [..] are words that any sentence may use, and those of source piece s are
                   words[starts[s]] to words[starts[s + 1] - 1], the most probable first; take the
                   first 50 or so of each source piece. The pieces of the source that the target's
                   tokenizer has, too, may be used as well, and all 256 bytes (<0x00> to <0xFF>)
                   where the source has one. Look at these rows of the logits alone.
"""
NO_WORDS = """\
There is no lexical_table.safetensors: `anydepth vocabulary` learns which words a sentence may need,
and exports made afterwards have a copy.
"""


@dataclass(frozen=True)
class OnnxManifest:
    """manifest.json: the weights that were exported, by their fingerprint, and the checksum of
    every other file."""

    format: int
    precision: str
    weights: str
    files: dict[str, str]

    def __post_init__(self) -> None:
        if odd := [name for name in self.files if not plain_name(name)]:
            raise ValueError(f"it lists {shown(odd[0])}, which is not the name of a file beside it")


def export_folder(run: Run, *, int8: bool) -> Path:
    """Where the run's export is."""
    return run.folder / "export" / ("onnx-int8" if int8 else "onnx")


def export_onnx(run: Run, *, int8: bool, say: Say) -> Path:
    """The folder that now holds the run's model as ONNX graphs, with tokenizers, operating points,
    a description and a manifest."""
    model, folder = load_model(run), export_folder(run, int8=int8)
    has_points = bool(kept_points(run))
    has_words = run.seal.has(run.table_file)
    text = text_files(run)
    copied = [file for file, is_there in ((run.points_file, has_points), (run.table_file, has_words)) if is_there]
    with changing(run.folder), replacing_folder(folder) as temporary:
        graphs = write_graphs(model, temporary, int8=int8)
        for name, data in (text | {file.name: run.seal.read(file) for file in copied}).items():
            write_bytes(temporary / name, data)
        readme = describe_export(
            model, int8=int8, has_points=has_points, has_words=has_words, is_adopted=VOCABULARY_NAME in text
        )
        write_text(temporary / "README.txt", readme)
        manifest = {
            "format": FORMAT,
            "opset": OPSET,
            "precision": _precision(int8),
            "weights": weights_fingerprint(run),
            "files": {file.name: file_hash(file) for file in sorted(temporary.iterdir())},
        }
        write_text(temporary / MANIFEST_NAME, json.dumps(with_checksum(manifest), indent=1) + "\n")
        size = sum(file.stat().st_size for file in temporary.iterdir())
    say(
        f"{folder}: {len(graphs)} ONNX graphs, {_precision(int8)}, {size / 2**20:.1f} MB; README.txt tells "
        "what they take and give"
    )
    return folder


def write_graphs(model: AdaptiveTransformer, folder: Path, *, int8: bool) -> dict[str, Path]:
    """Writes the graphs of `model` into the existing `folder`; the files by the names of the
    graphs."""
    try:
        from anydepth.inference.export.onnx_graphs import make_graphs
    except ModuleNotFoundError as error:
        raise UsageError(NEEDS_PACKAGES.format(missing=error.name)) from error
    files = {}
    for name, graph in make_graphs(model, opset=OPSET, int8=int8):
        files[name] = folder / f"{name}.onnx"
        write_bytes(files[name], graph)
    return files


def describe_export(
    model: AdaptiveTransformer, *, int8: bool, has_points: bool, has_words: bool = False, is_adopted: bool = False
) -> str:
    """What each graph takes and gives, and what else translating needs."""
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
        classifiers=_classifiers(model),
        adapters=ADAPTERS.format(dim=config.decoder.dim) if config.exit_adapter else "",
        attended=AFTER_BLOCK_1 if config.attends_first else ENTERING,
        shared=SHARED if config.key_blocks < config.blocks else "",
        halting=_halting(model.halting).format(dim=config.decoder.dim, blocks=config.blocks),
        text=ADOPTED_TEXT if is_adopted else OWN_TEXT,
        points=POINTS if has_points else NO_POINTS,
        words=WORDS if has_words else NO_WORDS,
    )


def _classifiers(model: AdaptiveTransformer) -> str:
    exits = model.config.classifier_exits
    if len(exits) == 1:
        return f"block {exits[0]} is the only exit"
    return (
        "one for each exit" if model.config.classifiers == "untied" else f"classifier{exits[-1]}.onnx serves all exits"
    )


def _halting(halting: Halting | None) -> str:
    match halting:
        case GeometricHalting():
            return GEOMETRIC
        case MultinomialHalting():
            return MULTINOMIAL
        case SequenceHalting():
            return SEQUENCE
        case None:
            return NO_HALTING


def _precision(int8: bool) -> str:
    return "int8" if int8 else "float32"


def checked_export(run: Run, *, int8: bool) -> dict[str, Path]:
    """The graphs of the run's export by name; one that is missing, damaged or of other weights is
    refused."""
    folder = export_folder(run, int8=int8)
    put_back(folder)
    again = f"`anydepth export {run.folder} --format onnx{' --int8' if int8 else ''}`"
    if not (folder / MANIFEST_NAME).exists():
        raise RunError(f"{run.folder} has no {'int8 ' if int8 else ''}ONNX export; make it with {again}")
    manifest = checked_files(folder, again)
    if not run.weights_file.exists() or manifest.weights != weights_fingerprint(run):
        raise RunError(f"{folder} was exported from other weights than {run.folder} has now; export again with {again}")
    if manifest.precision != _precision(int8):
        raise RunError(
            f"{folder} holds an export in {manifest.precision}, not in {_precision(int8)}; export again with {again}"
        )
    if missing := [name for name in graph_names(run.config) if f"{name}.onnx" not in manifest.files]:
        raise RunError(
            f"{folder / MANIFEST_NAME} does not list {missing[0]}.onnx, which this model needs; export again with "
            f"{again}"
        )
    return {Path(name).stem: folder / name for name in manifest.files if name.endswith(".onnx")}


def checked_files(folder: Path, again: str) -> OnnxManifest:
    """The manifest of the export in `folder`, all of whose files are there and whole; `again` tells
    how to export it again."""
    manifest = _read_manifest(folder / MANIFEST_NAME, again)
    for name, expected in manifest.files.items():
        file = folder / name
        if not file.is_file():
            raise RunError(f"{file} is missing; export again with {again}")
        if file_hash(file) != expected:
            raise RunError(f"{file} is damaged (its checksum differs); export again with {again}")
    return manifest


def graph_names(config: Config) -> list[str]:
    """The graphs that a model needs to translate; its halting module, where it has one, is computed
    without a graph."""
    model = config.model
    blocks = range(1, model.blocks + 1)
    exits = model.classifier_exits if model.classifiers == "untied" else model.classifier_exits[-1:]
    keys = [f"{part}{n}" for n in blocks[: model.key_blocks] for part in ("source", "keys_values")]
    adapters = [f"adapter{n}" for n in blocks[:-1]] if model.exit_adapter else []
    return [
        "encoder",
        "embedding",
        *keys,
        *(f"block{n}" for n in blocks),
        *(f"classifier{n}" for n in exits),
        *adapters,
    ]


def _read_manifest(path: Path, again: str) -> OnnxManifest:
    try:
        values = checked_object(read_bytes(path, most=MEDIUM))
        if values.get("format") != FORMAT:
            found = shown(values.get("format"))
            raise RunError(
                f"{path} is not a manifest of this version (format {found}, not {FORMAT}); export again with {again}"
            )
        return checked(OnnxManifest, values)
    except (OSError, ValueError) as error:
        raise RunError(f"{path} cannot be read ({error}); export again with {again}") from error
