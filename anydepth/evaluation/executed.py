"""The FLOPs that the decoder really executes, counted while it translates."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils.flop_counter import FlopCounterMode

from anydepth.model.blocks import EncoderBlock


@dataclass(frozen=True)
class ExecutedFlops:
    """What has been counted so far; it may be read while counting and afterwards."""

    counter: FlopCounterMode

    @property
    def decoder(self) -> int:
        """The FLOPs of everything but the encoder: decoder blocks, output classifiers and the
        decisions where to leave."""
        encoder = self.counter.get_flop_counts().get(EncoderBlock.__name__, {})
        return self.counter.get_total_flops() - sum(encoder.values())


@contextmanager
def executed_decoder_flops() -> Iterator[ExecutedFlops]:
    """A count of the matrix products and attention that run inside the `with`, each multiplication
    and addition one FLOP.

    For one sentence, a beam of 1 and no padding it is exactly the figure of appendix B for exits
    that are planned, and for confidence: its terms are these products and nothing else; looking up
    embeddings, biases, norms, softmax, ReLU and residuals are free in both. With a wider beam it
    holds the work for every hypothesis, where the formula knows the returned one alone; in a batch
    it holds the work on padding, too. Other decisions differ a little: the formula counts one of
    the geometric module at block N that nobody makes, a cosine is made of products by elements,
    which torch does not count, and the sequence module works on a vector of d_e numbers, where the
    formula has d_d.
    """
    # torch has no formula for the attention kernel of CPUs, and would count it as nothing.
    kernels = {torch.ops.aten._scaled_dot_product_flash_attention_for_cpu: _attention_flops}
    with FlopCounterMode(display=False, custom_mapping=kernels) as counter:
        yield ExecutedFlops(counter)


def _attention_flops(
    queries: Sequence[int],
    keys: Sequence[int],
    values: Sequence[int],
    *others: Any,
    out_shape: Any = None,
    **options: Any,
) -> int:
    """2 * queries * keys * (width of a key + width of a value) for each row and head, from shapes
    (row, head, time, width)."""
    rows, heads, count, _ = queries
    return 2 * rows * heads * count * keys[2] * (keys[3] + values[3])
