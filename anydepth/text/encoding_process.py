"""A process that encodes blocks: it reads them from standard input and writes what became of them
to standard output, until there are no more or whoever started it is gone."""

import json
import struct
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import IO

import numpy as np

from anydepth.errors import CorpusError
from anydepth.text.block_encoding import BlockEncoder, EncodedBlock
from anydepth.text.corpus import PairBlock, PairFilter
from anydepth.text.marian import AnyTokenizer, target_side, tokenizer_of
from anydepth.text.tokens import OFFSET_TYPE, EncodedSentences

SIZE = struct.Struct("<Q")


@dataclass(frozen=True)
class EncodingRecipe:
    """How blocks are encoded; without `fit` every pair is kept."""

    source: AnyTokenizer
    target: AnyTokenizer
    fit: PairFilter | None
    joint: bool
    names: tuple[str, str]  # of the files, for error messages

    def encoder(self, *, threads: int | None = None) -> BlockEncoder:
        """An encoder in this process."""
        return BlockEncoder(self.source, self.target, self.fit, threads=threads)

    def to_parts(self) -> list[bytes]:
        """The recipe as messages to a process."""
        note = {"fit": None if self.fit is None else asdict(self.fit), "joint": self.joint, "names": self.names}
        return [json.dumps(note).encode(), self.source.model_bytes, self.target.model_bytes]

    @classmethod
    def from_parts(cls, parts: Sequence[bytes]) -> "EncodingRecipe":
        """The recipe that `to_parts` wrote."""
        note, (source_bytes, target_bytes) = json.loads(parts[0]), parts[1:]
        source_name, target_name = note["names"]
        source = tokenizer_of(source_bytes, source_name)
        target = target_side(source) if note["joint"] else tokenizer_of(target_bytes, target_name)
        fit = None if note["fit"] is None else PairFilter(**note["fit"])
        return cls(source, target, fit, note["joint"], (source_name, target_name))


def send(stream: IO[bytes], parts: Sequence[bytes]) -> None:
    """Writes the parts of a message, each with its size before it."""
    stream.write(SIZE.pack(len(parts)))
    for part in parts:
        stream.write(SIZE.pack(len(part)))
        stream.write(part)
    stream.flush()


def receive(stream: IO[bytes]) -> list[bytes]:
    """The parts of the next message; an EOFError if there is none, or not the whole of it."""
    return [_exactly(stream, _number(stream)) for _ in range(_number(stream))]


def _number(stream: IO[bytes]) -> int:
    number: int = SIZE.unpack(_exactly(stream, SIZE.size))[0]
    return number


def _exactly(stream: IO[bytes], size: int) -> bytes:
    data = stream.read(size)
    if len(data) < size:
        raise EOFError
    return data


def block_parts(block: PairBlock) -> list[bytes]:
    """A block as a message to a process."""
    return [SIZE.pack(block.first), block.source, block.target]


def encoded_from_parts(parts: Sequence[bytes]) -> EncodedBlock:
    """What the process made of a block; a CorpusError where it refused it."""
    note = json.loads(parts[0])
    if "refused" in note:
        raise CorpusError(note["refused"])
    source, target = (
        EncodedSentences(tokens, np.frombuffer(lengths, OFFSET_TYPE)) for tokens, lengths in (parts[1:3], parts[3:5])
    )
    return EncodedBlock(source, target, note["read"], note["dropped"])


def _answer(encoder: BlockEncoder, block: PairBlock) -> list[bytes]:
    """What became of the block, as a message to whoever started the process."""
    try:
        encoded = encoder.encode(block)
    except CorpusError as error:
        return [json.dumps({"refused": str(error)}).encode()]
    note = json.dumps({"read": encoded.read, "dropped": dict(encoded.dropped)}).encode()
    sides = (encoded.source, encoded.target)
    return [note, *(part for side in sides for part in (side.tokens, side.lengths.astype(OFFSET_TYPE).tobytes()))]


def main() -> None:
    """Encodes the blocks on standard input by the recipe that comes before them."""
    inputs, outputs = sys.stdin.buffer, sys.stdout.buffer
    try:
        recipe = EncodingRecipe.from_parts(receive(inputs))
        encoder = recipe.encoder(threads=1)
        while True:
            first, source, target = receive(inputs)
            send(outputs, _answer(encoder, PairBlock(source, target, SIZE.unpack(first)[0], recipe.names)))
    except (EOFError, BrokenPipeError):
        sys.stdout = None  # so that nobody flushes it to one who is gone
