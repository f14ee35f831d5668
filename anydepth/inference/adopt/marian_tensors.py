"""A MarianMT model's tensors as those of a model of ours, with its words in our order."""

from collections.abc import Mapping, Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from anydepth.errors import AdoptionError
from anydepth.inference.adopt.marian_settings import MarianSettings
from anydepth.inference.adopt.tensor_names import (
    CLASSIFIER,
    OUTPUT_BIAS,
    POSITIONS,
    SHARED,
    SOURCE_EMBEDDING,
    TARGET_EMBEDDING,
    block_names,
)
from anydepth.model.transformer import Transformer, sinusoids
from anydepth.text.marian import MarianVocabulary
from anydepth.text.tokenizer import BOS

# The score of words that are never produced: so low that they take no probability from others, and
# a number that every engine can add.
NEVER = -1e9
FLOATS = (torch.float32, torch.float16, torch.bfloat16, torch.float64)
# Positions stored in half precision are this far from the sinusoids that they are.
ROUNDED = 1e-3


def own_tensors(
    given: Mapping[str, Tensor],
    settings: MarianSettings,
    vocabularies: tuple[MarianVocabulary, MarianVocabulary],
    origin: str,
) -> dict[str, Tensor]:
    """The tensors of our model, in float32; what is missing, too much, of another shape or no
    number is refused by name."""
    source, target = vocabularies
    shapes = _shapes(settings, source.rows, target.rows)
    taken = Tensors(given, origin)
    model = settings.config.model
    names = block_names(encoder_blocks=model.encoder.blocks, decoder_blocks=model.blocks)
    own = {name: taken.get(theirs, shapes[name]) for name, theirs in names}
    dim, words = model.decoder.dim, (settings.target_size, model.decoder.dim)
    taken.check_positions(model.max_length + 1, dim)
    if model.classifiers == "tied" and settings.is_shared:
        shared = taken.get_tied((SHARED, SOURCE_EMBEDDING, TARGET_EMBEDDING, CLASSIFIER), words)
        own["target_embedding.weight"] = in_order(shared, target.rows)
    else:
        source_matrix = taken.get(taken.first(SOURCE_EMBEDDING, SHARED), (settings.source_size, dim))
        own["source_embedding.weight"] = in_order(source_matrix, source.rows)
    if model.classifiers == "tied" and not settings.is_shared:
        own["target_embedding.weight"] = in_order(taken.get_tied((TARGET_EMBEDDING, CLASSIFIER), words), target.rows)
    if model.classifiers == "shared":
        taken.taken.add(SHARED)  # transformers has it beside the three others, and does not use it
        target_matrix = taken.get(taken.first(TARGET_EMBEDDING, SHARED), words)
        own["target_embedding.weight"] = in_order(target_matrix, target.rows)
        own["classifiers.0"] = in_order(taken.get(CLASSIFIER, words), target.rows)
    given_bias = (
        taken.get(OUTPUT_BIAS, (1, settings.target_size))[0]
        if OUTPUT_BIAS in given
        else torch.zeros(settings.target_size)
    )
    own["output_bias"] = ordered_bias(given_bias, target, settings)
    taken.check_all_taken()
    assert own.keys() == shapes.keys(), sorted(own.keys() ^ shapes.keys())
    return own


def ordered_bias(
    bias: Float[Tensor, " row"], vocabulary: MarianVocabulary, settings: MarianSettings
) -> Float[Tensor, " word"]:
    """The bias of each of our words. Banned ones get NEVER, which takes them out of the softmax.

    Where the softmax has them in (`renormalize_logits` is false), the start keeps its own: search
    bans BOS after the softmax, as transformers does.
    """
    ordered = torch.full((len(vocabulary.rows),), NEVER)
    for number, row in enumerate(vocabulary.rows):
        if row is None or (number == BOS and (not vocabulary.is_start_banned or settings.is_renormalized)):
            continue
        if number == BOS or row not in settings.banned:
            ordered[number] = bias[row]
    return ordered


def in_order(matrix: Float[Tensor, "row dim"], rows: Sequence[int | None]) -> Float[Tensor, "word dim"]:
    """The rows of our words; zeros where a word has none."""
    ordered = matrix.new_zeros(len(rows), matrix.shape[1])
    numbers = [number for number, row in enumerate(rows) if row is not None]
    ordered[numbers] = matrix[[row for row in rows if row is not None]]
    return ordered


class Tensors:
    """The tensors of a stranger's file, each checked when it is taken."""

    def __init__(self, given: Mapping[str, Tensor], origin: str) -> None:
        self.given, self.origin, self.taken = given, origin, set[str]()

    def get(self, name: str, shape: tuple[int, ...]) -> Tensor:
        """The tensor in float32; it must be there, of that shape, and all numbers."""
        if name not in self.given:
            raise AdoptionError(f"{self.origin} has no tensor {name}, which its config.json asks for")
        tensor = self.given[name]
        if tuple(tensor.shape) != shape:
            raise AdoptionError(f"{self.origin}: {name} is {tuple(tensor.shape)}, but config.json asks for {shape}")
        if tensor.dtype not in FLOATS or tensor.layout != torch.strided:
            raise AdoptionError(f"{self.origin}: {name} is of type {tensor.dtype}, which no weights are")
        converted = tensor.to(torch.float32)
        if not bool(torch.isfinite(converted).all()):
            raise AdoptionError(f"{self.origin}: {name} has what is no number (NaN or infinite)")
        self.taken.add(name)
        return converted.contiguous()

    def first(self, *names: str) -> str:
        """The first of the names that the file has; the first of all where it has none."""
        return next((name for name in names if name in self.given), names[0])

    def get_tied(self, names: Sequence[str], shape: tuple[int, ...]) -> Tensor:
        """The one tensor that any of `names` stands for; where several are there, they are equal."""
        there = [name for name in names if name in self.given]
        tensor = self.get(self.first(*names), shape)
        for name in there[1:]:
            if not torch.equal(self.get(name, shape), tensor):
                raise AdoptionError(
                    f"{self.origin}: {name} differs from {there[0]}, which config.json says it is (tied embeddings)"
                )
        return tensor

    def check_positions(self, count: int, dim: int) -> None:
        """Stored positions must be the sinusoids that MarianMT makes anew."""
        for name in (name for name in POSITIONS if name in self.given):
            if not torch.allclose(self.get(name, (count, dim)), sinusoids(count, dim, "marian"), rtol=0, atol=ROUNDED):
                raise AdoptionError(f"{self.origin}: {name} are not MarianMT's sinusoids, so they were learned")

    def check_all_taken(self) -> None:
        """Refuses a file with a tensor that no MarianMT model has."""
        if left := sorted(self.given.keys() - self.taken):
            raise AdoptionError(f"{self.origin} has the tensor {left[0]}, which a model of its config.json has not")


def _shapes(
    settings: MarianSettings, source_rows: Sequence[int | None], target_rows: Sequence[int | None]
) -> dict[str, tuple[int, ...]]:
    """The shapes of the tensors of our model; no memory is taken for them."""
    with torch.device("meta"):
        model = Transformer(
            settings.config.model,
            source_vocab=len(source_rows),
            target_vocab=len(target_rows),
            is_joint=settings.is_shared,
        )
    return {name: tuple(parameter.shape) for name, parameter in model.named_parameters()}
