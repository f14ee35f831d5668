"""Searches of cases, in a process that has nothing but NumPy and the extension in it."""

import importlib.util
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

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
            finding = finding or (f"{set_}, {case['policy']}, {case['seed']}: {found}" if found else "")
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
    """How many searches were run, and what is wrong with what they found: as given, and one
    sentence at a time in one thread."""
    given = {**case["engine"], "shape": native.Shape(**case["engine"]["shape"]), "instructions": instructions}
    engine = native.Engine(tensors=tensors, **given)
    sources, limits, policy, settings, words = case["call"]
    chosen = native.Policy(**{**policy, "rule": getattr(native.Rule, policy["rule"])})
    selection = None if words is None else engine.selection(**with_arrays(words))
    together, _ = engine.search(sources, limits, chosen, native.Settings(**settings), selection)
    alone = {**settings, "threads": 1, "batch_sentences": 1}
    apart, _ = engine.search(sources, limits, chosen, native.Settings(**alone), selection)
    first, second = hypotheses(together), hypotheses(apart)
    if first != second:
        return 2, "a sentence has other hypotheses among others than alone"
    if case["expected"] is None:
        return 2, "" if all(np.isfinite(score) for ranked in first for *_, score in ranked) else "a score is not finite"
    return 2, next(
        (told for mine, theirs in zip(first, case["expected"], strict=True) if (told := difference(mine, theirs))), ""
    )


def with_arrays(words: dict[str, Any]) -> dict[str, Any]:
    """A selection of words with its learned weights, if it has any, as arrays again."""
    learned = {name: np.array(words[name], np.float32) for name in ("weight", "bias") if name in words}
    return {**words, **learned}


def hypotheses(found: Any) -> list[list[tuple[list[int], list[int], float]]]:
    return [[(each.tokens, each.exits, each.score) for each in ranked] for ranked in found]


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
