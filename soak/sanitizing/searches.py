"""Searches of cases, in a process that has nothing but NumPy and the extension in it."""

import importlib.util
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from sanitizing.given import hypotheses, make_policy, make_selection, make_shape
from sanitizing.open_searches import search_openly

NEAR = 1e-4  # hypotheses whose scores differ by less may change places


def search_cases(folder: Path, library: Path) -> int:
    """Searches the cases of `folder` that are to do with the extension at `library`; one line of
    JSON for each."""
    native = load_extension(library)
    instructions = native.instruction_sets()
    for number in json.loads((folder / "todo").read_text(encoding="utf-8")):
        case = json.loads((folder / f"{number}.json").read_text(encoding="utf-8"))
        tensors = dict(np.load(folder / f"{number}.npz"))
        searches, finding = 0, ""
        for set_ in dict.fromkeys([instructions[number % len(instructions)], "plain"]):
            count, found = search_case(native, case, tensors, set_)
            searches += count
            finding = finding or (f"{set_}, {found}" if found else "")
        print(json.dumps({"case": number, "searches": searches, "finding": finding}), flush=True)
    return 0


def load_extension(library: Path) -> Any:
    spec = importlib.util.spec_from_file_location("_native", library)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def search_case(
    native: Any, case: dict[str, Any], tensors: dict[str, np.ndarray], instructions: str
) -> tuple[int, str]:
    """How many searches were run, and what is wrong with what they found: every call as given and
    one sentence at a time in one thread, and all of them together in a search that stays open."""
    given = {**case["engine"], "shape": make_shape(native, case["engine"]["shape"]), "instructions": instructions}
    engine = native.Engine(tensors=tensors, **given)
    found: list[Any] = []
    for call in case["calls"]:
        sources, limits, policy, settings, batching, words = call["given"]
        terms = make_policy(native, policy), native.Settings(**settings)
        selection = make_selection(engine, words)
        together, _ = engine.search(sources, limits, *terms, native.Batching(**batching), selection)
        alone = native.Batching(**{**batching, "threads": 1, "sentences": 1})
        apart, _ = engine.search(sources, limits, *terms, alone, selection)
        found.append(hypotheses(apart))
        if finding := compared(hypotheses(together), found[-1], call["expected"]):
            return 2 * len(found), f"{call['told']}: {finding}"
    finding = search_openly(native, engine, [call["given"] for call in case["calls"]], found)
    told = " and ".join(call["told"] for call in case["calls"])
    return 2 * len(found) + 3, f"{told}: {finding}" if finding else ""


def compared(together: list[Any], apart: list[Any], expected: list[Any] | None) -> str:
    """What is wrong with the hypotheses of a call, if anything is."""
    if together != apart:
        return "a sentence has other hypotheses among others than alone"
    if expected is None:
        is_finite = all(np.isfinite(score) for ranked in together for *_, score in ranked)
        return "" if is_finite else "a score is not finite"
    return next((told for pair in zip(together, expected, strict=True) if (told := difference(*pair))), "")


def difference(mine: Sequence[tuple[list[int], list[int], float]], theirs: Sequence[Sequence[Any]]) -> str:
    """What tells the engine's hypotheses of a sentence from those of the plain step, places of
    nearly equal ones apart."""
    if len(mine) != len(theirs):
        return f"{len(mine)} hypotheses where the plain step has {len(theirs)}"
    for place, ((tokens, exits, score), other) in enumerate(zip(mine, theirs, strict=True)):
        if abs(score - other[2]) > NEAR * (1 + abs(score)):
            return f"hypothesis {place} scores {score}, and {other[2]} by the plain step"
        if [tokens, exits] != list(other[:2]) and not is_near_tie(mine, theirs, place):
            return f"hypothesis {place} is {tokens} by exits {exits}, and {other[0]} by {other[1]} by the plain step"
    return ""


def is_near_tie(
    mine: Sequence[tuple[list[int], list[int], float]], theirs: Sequence[Sequence[Any]], place: int
) -> bool:
    """Whether rounding may have put another hypothesis here: one of nearly its score that stands
    elsewhere or was not kept."""
    tokens, exits, score = mine[place]
    scores = [row[2] for number, row in enumerate(theirs) if number != place and list(row[:2]) == [tokens, exits]]
    is_last = len(mine) > 1 and place == len(mine) - 1
    return is_last or any(abs(score - other) <= NEAR * (1 + abs(score)) for other in scores)
