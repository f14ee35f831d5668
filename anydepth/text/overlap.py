"""Held-out pairs that are also in the training text, or in other held-out text."""

from collections.abc import Iterable, Sequence

import numpy as np
from jaxtyping import Int, Integer

from anydepth.text.prepared import PreparedData
from anydepth.text.tokens import TokenPairs

CHUNK = 1_000_000
MOST_OVERLAP = 0.01  # of the pairs of a held-out text; more is no accident of short sentences


def pairs_seen_in_training(data: PreparedData, pairs: Sequence[tuple[str, str]]) -> list[int]:
    """The numbers (from 0) of the `pairs` whose two sides are, token by token, a pair of the
    training text."""
    sources = data.source_tokenizer.encode_lines([source for source, _ in pairs])
    targets = data.target_tokenizer.encode_lines([target for _, target in pairs])
    wanted: dict[tuple[bytes, bytes], list[int]] = {}
    for number, (source, target) in enumerate(zip(sources, targets, strict=True)):
        wanted.setdefault((_key(np.array(source, np.int64)), _key(np.array(target, np.int64))), []).append(number)
    lengths = np.unique(
        _joined(*(np.array([len(sentence) for sentence in side], np.int64) for side in (sources, targets)))
    )
    seen: set[int] = set()
    train = data.pairs("train")
    for start in range(0, len(train), CHUNK):
        for number in _of_lengths(train, start, min(start + CHUNK, len(train)), lengths):
            seen.update(wanted.get((_key(train.source(number)), _key(train.target(number))), []))
    return sorted(seen)


def pairs_in(pairs: Sequence[tuple[str, str]], others: Iterable[tuple[str, str]]) -> list[int]:
    """The numbers (from 0) of the `pairs` that are among the `others`, line by line."""
    known = set(others)
    return [number for number, pair in enumerate(pairs) if pair in known]


def _of_lengths(train: TokenPairs, start: int, stop: int, lengths: Int[np.ndarray, " distinct"]) -> list[int]:
    """The training pairs of start..stop-1 that are as long on both sides as some pair looked for;
    only offsets are read."""
    source, target = train.lengths(start, stop)
    found: list[int] = (start + np.flatnonzero(np.isin(_joined(source, target), lengths))).tolist()
    return found


def _joined(source: Int[np.ndarray, " pairs"], target: Int[np.ndarray, " pairs"]) -> Int[np.ndarray, " pairs"]:
    """Both lengths of each pair in one number."""
    joined: Int[np.ndarray, " pairs"] = source * 1_000_003 + target
    return joined


def _key(tokens: Integer[np.ndarray, " length"]) -> bytes:
    return tokens.astype(np.int64).tobytes()
