"""Shapes: sizes, made-up tables of words, and exits drawn from a histogram."""

from dataclasses import replace

import pytest
import torch
from tiny import BLOCKS

from anydepth.bench.shape import Sizes, drawn_exits, parse_shares, random_table
from anydepth.errors import UsageError
from anydepth.model.source import EncodedSource

SIZES = Sizes(vocab=40, source_length=5, output_length=6, words_per_piece=2)
SHARES = [0.5, 0.25, 0.125, 0.125]


def test_drawn_exits_have_the_histogram_and_are_the_same_for_the_same_seed() -> None:
    table = drawn_exits(SHARES, sentences=400, length=25, seed=1)
    counts = table.flatten().bincount(minlength=BLOCKS + 1)[1:]
    torch.testing.assert_close(counts / counts.sum(), torch.tensor(SHARES), atol=0.02, rtol=0)
    assert table.equal(drawn_exits(SHARES, sentences=400, length=25, seed=1))
    assert not table.equal(drawn_exits(SHARES, sentences=400, length=25, seed=2))


def test_a_made_up_table_brings_each_piece_so_many_words_beside_those_of_every_sentence() -> None:
    table = random_table(SIZES, seed=1)
    assert table is not None
    assert (table.pieces, table.smallest) == ((40, 40), 37)  # of 40 pieces all words are always there
    wide = random_table(replace(SIZES, vocab=400), seed=1)
    assert wide is not None
    source = EncodedSource(torch.tensor([[70, 80]]), torch.ones(1, 2, dtype=torch.bool), torch.zeros(1, 2, 1))
    assert 51 < int(wide.allowed(source).sum()) <= 55


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("0.5,x,1,1", r"shares are numbers with commas between"),
        ("0.5,0.5", r"has 2 shares but the shape has 4 exits; give one for each exit"),
        ("1,-1,1,1", r"shares are not negative"),
        ("0,0,0,0", r"not all of them 0"),
        ("nan,1,1,1", r"shares are not negative"),
    ],
)
def test_a_histogram_that_cannot_be_drawn_from_is_refused(text: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        parse_shares(text, BLOCKS)
    assert parse_shares("2,1,1,0", BLOCKS) == [0.5, 0.25, 0.25, 0.0]


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ((4, 5, 6), r"--vocab 4 has no room for words"),
        ((9, 1, 6), r"--source-length 1 counts"),
        ((9, 5, 1), r"--output-length 1 leaves"),
        ((9, 5, 6, 6), r"--words-per-piece 6 cannot be drawn from the 5 words of --vocab 9; set it between 1 and 5"),
    ],
)
def test_sizes_without_anything_to_time_are_refused(sizes: tuple[int, ...], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        Sizes(*sizes)
