"""Searches as pieces of work that are timed."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from anydepth.exits.policies import Policy
from anydepth.inference.engines.engine import Engine
from anydepth.search.decoding import SearchSettings


@dataclass(frozen=True)
class Call:
    """A piece of work that is timed as one, and the numbers of the sentences that it translates, in
    the order of its results."""

    numbers: Sequence[int]
    run: Callable[[], Sequence[Any]]


def search_call(
    engine: Engine,
    sentences: Sequence[Sequence[int]],
    numbers: Sequence[int],
    policy: Policy,
    settings: SearchSettings,
    *,
    batch: int | None,
) -> Call:
    """One search for the sentences of these numbers, no more than `batch` of them at a time; as
    many as the settings allow if None."""
    chosen = [sentences[number] for number in numbers]
    if batch is None:
        return Call(numbers, lambda: engine.search(chosen, policy, settings))
    room = len(chosen) * settings.beam * (1 + max(len(ids) for ids in chosen))  # for all: `batch` is the only limit
    limited = replace(settings, batch_tokens=room, batch_sentences=batch)
    return Call(numbers, lambda: engine.search(chosen, policy, limited))


def search_calls(
    engine: Engine,
    sentences: Sequence[Sequence[int]],
    policy: Policy,
    settings: SearchSettings,
    *,
    batch: int | None,
) -> list[Call]:
    """One search for all sentences, or one for each where the batch size is 1."""
    everything = list(range(len(sentences)))
    groups = [[number] for number in everything] if batch == 1 else [everything]
    return [search_call(engine, sentences, group, policy, settings, batch=batch) for group in groups]
