"""The FLOPs of the decoder by the formulas of appendix B, from recorded exits alone."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias, TypeVar, runtime_checkable

import torch
from jaxtyping import Int
from torch import Tensor

from anydepth.config.model_settings import ModelConfig
from anydepth.errors import UsageError

Count = TypeVar("Count", int, Int[Tensor, "*#place"])
Places: TypeAlias = Int[Tensor, "*place"]  # a whole number for each token, whatever the order of tokens
Deciding: TypeAlias = Collection[int] | None  # the blocks after which something is decided; None: as printed


@dataclass(frozen=True)
class DecoderShape:
    """The sizes that decide the decoder's cost: N, d_d, d_f, d_e and V in appendix B, and beyond it
    the width r of the adapters of the exits below N and the number of blocks that make keys and values
    of their own, the lowest; None: all."""

    blocks: int
    dim: int
    ffn_dim: int
    encoder_dim: int
    vocab: int
    adapter: int = 0
    key_blocks: int | None = None

    @property
    def last_key_block(self) -> int:
        """The highest block that makes keys and values."""
        return self.blocks if self.key_blocks is None else self.key_blocks

    @classmethod
    def of(cls, config: ModelConfig, vocab: int) -> "DecoderShape":
        """The shape of a model with `vocab` target words."""
        decoder = config.decoder
        return cls(
            config.blocks,
            decoder.dim,
            decoder.ffn_dim,
            config.encoder.dim,
            vocab,
            adapter=config.exit_adapter,
            key_blocks=config.key_blocks,
        )


DecisionCost: TypeAlias = Callable[[DecoderShape, Places, Places], Places]


@runtime_checkable
class ThresholdCost(Protocol):
    """The cost of decisions by thresholds: by all of them, which is the paper's formula, or by
    those of the `deciding` blocks alone.

    A threshold of 0 or 1 decides nothing, so nothing is computed for it.
    """

    def __call__(self, shape: DecoderShape, exits: Places, times: Places, deciding: Deciding = None) -> Places:
        """FLOPs of each token that leaves at one of `exits`, output projection included."""


def block_flops(shape: DecoderShape, *, t: Count, source_length: Count, is_first_call: bool) -> Count:
    """FC(x, t), the cost of one block that token t (from 1) goes through (appendix B).

    12 d_d^2 + 4 d_f d_d + 4 t d_d + 4 |x| d_d, and 4 |x| d_d d_e for the source's keys and values
    the first time that the block runs for the sentence. |x| counts every source token, `</s>`
    included. Non-linearities, norms and residuals are free.
    """
    dim = shape.dim
    flops = 12 * dim**2 + 4 * shape.ffn_dim * dim + 4 * t * dim + 4 * source_length * dim
    return flops + _source_projection_flops(shape, source_length) if is_first_call else flops


def skipped_block_flops(shape: DecoderShape) -> int:
    """FS = 4 d_d^2, the cost of one block above a token's exit: the keys and values of the copied
    state (appendix B)."""
    return 4 * shape.dim**2


def no_decision(shape: DecoderShape, exits: Places, times: Places) -> Places:
    """The output projection 2 V d_d of each token, where the exit is known beforehand: FP = 0
    (appendix B).

    Here and below a projection at an exit under N has the exit's adapter before it, if there is
    one: 4 d_d r, not in the paper.
    """
    return _word_flops(shape, exits)


def sequence_decision(shape: DecoderShape, exits: Places, times: Places) -> Places:
    """FP = 2 N d_d at t = 1 and 0 later, and the output projection of each token (appendix B).

    As printed, though a decision on the encoder's mean takes 2 N d_e.
    """
    return _word_flops(shape, exits) + 2 * shape.blocks * shape.dim * (times == 1).long()


def multinomial_decision(shape: DecoderShape, exits: Places, times: Places) -> Places:
    """FP = 2 N d_d and the output projection of each token (appendix B)."""
    return _word_flops(shape, exits) + 2 * shape.blocks * shape.dim


def geometric_decision(shape: DecoderShape, exits: Places, times: Places, deciding: Deciding = None) -> Places:
    """FP = 2 d_d q(t) and the output projection of each token that leaves at q(t) (appendix B).

    As printed, with a decision after block N as well, which nothing depends on. Where only the
    `deciding` blocks decide, 2 d_d for each of them up to q(t).
    """
    return _word_flops(shape, exits) + 2 * shape.dim * _decisions_made(shape, exits, deciding)


def units_decision(units: int) -> ThresholdCost:
    """The cost of a geometric-like decision by `units` rectified units: 2 d_d u + 2 u after each
    block below N, and the output projection.

    Not in the paper, whose decision is one vector's.
    """
    if units < 1:
        raise UsageError(f"a decision by {units} units sees nothing; make it 1 or more")

    def cost(shape: DecoderShape, exits: Places, times: Places, deciding: Deciding = None) -> Places:
        """FLOPs of each token."""
        made = _decisions_made(shape, exits, range(1, shape.blocks) if deciding is None else deciding)
        return _word_flops(shape, exits) + (2 * shape.dim * units + 2 * units) * made

    return cost


def confidence_decision(shape: DecoderShape, exits: Places, times: Places, deciding: Deciding = None) -> Places:
    """FP = 2 q(t) V d_d of each token, which contains its output projection (appendix B).

    So costs every measure taken from all probabilities of a block's classifier, such as the margin
    between the best two. Where only the `deciding` blocks decide, 2 V d_d for each of them up to
    q(t), and once more for the word if block q(t) is none of them.
    """
    deciding = range(1, shape.blocks) if deciding is None else deciding
    look = _projection_flops(shape) + adapter_flops(shape)
    unseen = (~_is_one_of(exits, deciding)).long()
    return look * _decisions_made(shape, exits, deciding) + _word_flops(shape, exits) * unseen


def similarity_decision(shape: DecoderShape, exits: Places, times: Places, deciding: Deciding = None) -> Places:
    """6 d_d q(t) and the output projection of each token, where the cosine of two states decides
    after each block.

    A cosine is three dot-products. Not in the paper; counted as appendix B counts the
    geometric-like decision.
    """
    return _word_flops(shape, exits) + 6 * shape.dim * _decisions_made(shape, exits, deciding)


def shortlist_decision(words: int) -> ThresholdCost:
    """The cost where the first block that decides scores all V words and the later ones below N the
    best `words` = K of them alone.

    2 V d_d at exit 1. At a higher exit q(t) the decisions cost 2 V d_d + 2 K d_d (min(q(t), N - 1)
    - 1) and the word, chosen among all words, another 2 V d_d. Not in the paper, whose confidence
    thresholding scores all words after every block.
    """
    if words < 1:
        raise UsageError(f"a shortlist of {words} words holds no word; make it 1 or longer")

    def cost(shape: DecoderShape, exits: Places, times: Places, deciding: Deciding = None) -> Places:
        """FLOPs of each token."""
        ordered = sorted(range(1, shape.blocks) if deciding is None else deciding)
        first, later = ordered[:1], ordered[1:]
        full, few = (2 * count * shape.dim + adapter_flops(shape) for count in (shape.vocab, min(words, shape.vocab)))
        looks = full * _decisions_made(shape, exits, first) + few * _decisions_made(shape, exits, later)
        return looks + _word_flops(shape, exits) * (~_is_one_of(exits, first)).long()

    return cost


def token_flops(
    shape: DecoderShape,
    exits: Int[Tensor, "*place"],
    times: Int[Tensor, "*#place"],
    source_lengths: Int[Tensor, "*#place"],
    decision: DecisionCost,
) -> Int[Tensor, "*place"]:
    """The FLOPs of each token by Algorithm 2 (appendix B), without what a block costs at its first
    call.

    q(t) FC(x, t) + (N - q(t)) FS + FP(t, q(t)) + 2 V d_d, where `decision` gives the last two.
    Times count from 1. Where only K blocks make keys and values, beyond the paper, (K - q(t)) FS: the
    FC of a block above K has none, and none is made for it.
    """
    exits, times, source_lengths = exits.long(), times.long().expand_as(exits), source_lengths.long()
    assert exits.numel() == 0 or 1 <= int(exits.min()) <= int(exits.max()) <= shape.blocks, (
        f"exits lie in 1..{shape.blocks}"
    )
    running = exits * block_flops(shape, t=times, source_length=source_lengths, is_first_call=False)
    return running + (shape.last_key_block - exits) * skipped_block_flops(shape) + decision(shape, exits, times)


def first_call_flops(
    shape: DecoderShape, highest_exits: Int[Tensor, "*place"], source_lengths: Int[Tensor, "*#place"]
) -> Int[Tensor, "*place"]:
    """What the first calls of all blocks cost each sentence: 4 |x| d_d d_e for every block up to
    its tokens' highest exit (appendix B).

    A block that no token of the sentence reaches is never called; a sentence without tokens has 0
    for its highest exit. A block with the keys and values of another costs nothing at its first.
    """
    return highest_exits.long().clamp(max=shape.last_key_block) * _source_projection_flops(shape, source_lengths.long())


def sentence_flops(shape: DecoderShape, exits: Sequence[int], source_length: int, decision: DecisionCost) -> int:
    """The FLOPs of an output sentence whose tokens left at `exits` (Algorithm 2, appendix B);
    nothing for an empty one."""
    if not exits:
        return 0
    left, lengths = torch.tensor(exits), torch.tensor(source_length)
    tokens = token_flops(shape, left, torch.arange(1, len(exits) + 1), lengths, decision)
    return int(tokens.sum() + first_call_flops(shape, left.max(), lengths))


def _projection_flops(shape: DecoderShape) -> int:
    """2 V d_d, the scores of all words for one state."""
    return 2 * shape.vocab * shape.dim


def adapter_flops(shape: DecoderShape) -> int:
    """4 d_d r, what lies before the classifier of an exit below N; not in the paper."""
    return 4 * shape.dim * shape.adapter


def _word_flops(shape: DecoderShape, exits: Tensor) -> Tensor:
    """The scores of all words for one state of each token, at its exit."""
    return _projection_flops(shape) + adapter_flops(shape) * (exits < shape.blocks).long()


def _source_projection_flops(shape: DecoderShape, source_length: Count) -> Count:
    """4 |x| d_d d_e, the keys and values of the source for one block."""
    return 4 * source_length * shape.dim * shape.encoder_dim


def _decisions_made(shape: DecoderShape, exits: Tensor, deciding: Collection[int] | None) -> Tensor:
    """How many of the `deciding` blocks each token has come through; without any given, how many
    blocks."""
    if deciding is None:
        return exits.long()
    decides = torch.zeros(shape.blocks + 1, dtype=torch.long, device=exits.device)
    decides[list(deciding)] = 1
    return decides.cumsum(0)[exits.long()]


def _is_one_of(exits: Tensor, blocks: Collection[int]) -> Tensor:
    return torch.isin(exits.long(), torch.tensor(list(blocks), dtype=torch.long, device=exits.device))
