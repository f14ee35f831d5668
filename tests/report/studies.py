"""Complete study folders with invented figures, as `anydepth study` would write them."""

import json
from pathlib import Path
from typing import Any

from report.invented_runs import Json, all_runs, name_of

EXPERIMENTS = [
    "table1",
    "table2",
    "table3",
    "figure3",
    "figure4",
    "figure5",
    "figures6-9",
    "cost",
    "rivals",
    "seq-bleu",
]
COMMAND = "anydepth study all --data data --to study"


def write_study(folder: Path, *, blocks: int = 6, seeds: tuple[int, ...] = (1,)) -> Path:
    """A finished study of models with so many blocks; `folder` is returned."""
    runs = [run for seed in seeds for run in all_runs(blocks, seed)]
    write_json(folder / "study.json", _plan(blocks, seeds, [run["run"] for run in runs]))
    for run in runs:
        write_json(folder / "records" / "runs" / f"{run['run']}.json", run)
    records = folder / "records"
    write_json(records / "trends.json", {"format": 1, "trends": TRENDS})
    write_json(records / "comparisons.json", {"format": 1, "comparisons": _comparisons(runs, blocks)})
    write_json(records / "tokens.json", _tokens(blocks))
    write_json(
        records / "positions.json", {"format": 1, "models": [_position_model(blocks, place) for place in range(3)]}
    )
    write_json(records / "scores.json", {"format": 1, "models": [_score_model(blocks, place) for place in range(3)]})
    cost = {
        "ratio": 1.23,
        "low": 1.2,
        "high": 1.3,
        "rounds": 10,
        "updates_per_round": 20,
        "threads": 1,
        "vocabulary": 3000,
        "blocks": blocks,
    }
    write_json(records / "cost.json", {"format": 1, **cost})
    return folder


def write_json(path: Path, value: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value, ensure_ascii=False), encoding="utf-8")


def read_json(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


def change(path: Path, *keys: Any, to: Any) -> None:
    """Sets one value inside a JSON file."""
    whole = read_json(path)
    inner = whole
    for key in keys[:-1]:
        inner = inner[key]
    assert inner[keys[-1]] != to
    inner[keys[-1]] = to
    write_json(path, whole)


def _plan(blocks: int, seeds: tuple[int, ...], runs: list[str]) -> Json:
    return {
        "format": 1,
        "title": "built-in corpus, 20,000 pairs",
        "experiments": EXPERIMENTS,
        "command": COMMAND,
        "config": {
            "model": {"blocks": blocks, "heads": 4, "encoder": {"dim": 128}},
            "training": {"updates": 1000, "gradient_ratio": None},
        },
        "exit_config": ["training.updates=400", "training.warmup=40"],
        "data": {
            "folder": "data",
            "languages": "de-en",
            "fingerprint": "0123456789abcdef",
            "pairs": {"train": 28998, "valid": 1014, "test": 1000},
            "vocabulary": 3000,
        },
        "seeds": list(seeds),
        "updates": 1000,
        "exit_updates": 400,
        "machine": {"processor": "Some Processor 3000", "cores": 2, "threads_per_run": 1},
        "versions": {"anydepth": "0.5.0", "revision": "c869c8e0123", "torch": "2.13.0", "python": "3.11.9"},
        "steps": [
            {
                "name": f"train {run}",
                "command": f"anydepth train --to runs/{run}",
                "needs": [],
                "state": "done",
                "minutes": 3.2,
                "reason": None,
            }
            for run in runs
        ],
    }


def comparison(run: str, against: str, split: str, policy: str, difference: float, *, reach: float = 0.3) -> Json:
    return {
        "run": run,
        "against": against,
        "split": split,
        "policy": policy,
        "against_policy": policy,
        "difference": difference,
        "low": round(difference - reach, 3),
        "high": round(difference + reach, 3),
        "p_value": 0.1,
    }


def _comparisons(runs: list[Json], blocks: int) -> list[Json]:
    """Every row of a table against aligned, from the runs' own figures."""
    figures = {
        (run["run"], m["split"], m["policy"]): m["bleu"]
        for run in runs
        for m in run["measurements"]
        if m["kind"] in ("fixed", "full", "uniform")
    }
    exits = [f"fixed:{n}" for n in range(1, blocks + 1)]
    found: list[Json] = []
    averages: dict[tuple[int, str], list[float]] = {}
    for run in runs:
        against = name_of("aligned", run["seed"])
        if run["role"] == "baseline":
            for split in ("valid", "test"):
                policy = f"fixed:{run['blocks']}"
                difference = round(figures[run["run"], split, policy] - figures[against, split, policy], 3)
                found.append(comparison(run["run"], against, split, policy, difference))
                averages.setdefault((run["seed"], split), []).append(difference)
        elif run["role"] in ("mixed", "omega", "gamma"):
            for split in ("valid", "test"):
                differences = {
                    policy: figures[run["run"], split, policy] - figures[against, split, policy]
                    for policy in [*exits, "uniform"]
                }
                differences["average"] = sum(differences[policy] for policy in exits) / blocks
                found += [
                    comparison(run["run"], against, split, policy, round(value, 3))
                    for policy, value in differences.items()
                ]
    for (seed, split), each in averages.items():
        found.append(
            comparison(
                name_of("baseline", seed), name_of("aligned", seed), split, "average", round(sum(each) / blocks, 3)
            )
        )
    return found


def _trend(name: str, experiment: str, claim: str, verdict: str, difference: float | None, **others: Any) -> Json:
    interval = (None, None) if difference is None else (round(difference - 0.3, 2), round(difference + 0.3, 2))
    return {
        "name": name,
        "experiment": experiment,
        "claim": claim,
        "paper": "35.6 against 35.5 with M = 6 (average over exits, valid)",
        "ours": "26.10 against 25.70" if difference is not None else "",
        "difference": difference,
        "low": interval[0],
        "high": interval[1],
        "unit": "BLEU",
        "verdict": verdict,
        "basis": "paired bootstrap over 1,014 sentences",
        "runs": ["aligned", "mixed-6"],
        "remark": "",
        **others,
    }


TRENDS = [
    _trend(
        "aligned-beats-mixed-fixed", "table1", "Aligned training beats mixed training at fixed exits.", "agree", 0.4
    ),
    _trend(
        "aligned-beats-mixed-uniform",
        "table1",
        "Aligned training beats mixed training at uniform exits.",
        "within noise",
        0.1,
    ),
    _trend(
        "geometric-beats-multinomial", "figure3", "Geometric-like classifiers beat multinomial ones.", "agree", 0.52
    ),
    _trend(
        "c-beats-ll",
        "figure3",
        "With geometric-like classifiers correctness beats likelihood.",
        "disagree",
        -0.45,
        basis="mean of 3 seeds (1, 2, 3); the interval covers the paired bootstrap over 1,000 sentences and the "
        "95% t-interval over seeds",
        remark="The models are small and the oracle of likelihood is less noisy then; longer training narrows the "
        "gap. The curves overlap between average exits 1.42 and 3.81 and are compared there; below and above this "
        "one of the two has no points, so that nothing is said of these depths. With seed 2 alone the difference is "
        "-0.61, with seed 3 it is -0.29.",
    ),
    _trend("lambda-lowers-exits", "figure4", "A higher λ lowers the average exit.", "agree", 1.2, unit="exits"),
    _trend("deeper-at-the-start", "figures6-9", "Sentences start deeper than they end.", "missing", None),
]
PIECES = [
    "▁three",
    "▁children",
    "▁are",
    "▁playing",
    "▁in",
    "▁the",
    "▁snow",
    "▁beside",
    "▁a",
    "▁frozen",
    "▁lake",
    ".",
    "</s>",
]


def _tokens(blocks: int) -> Json:
    latin = {
        "source": 'Drei <Kinder> & "ein" Schnee spielen | neben *einem* gefrorenen See.',
        "reference": "Three children play in the snow.",
        "tokens": PIECES,
        "exits": [1 + (5 * t + 2) % blocks for t in range(len(PIECES))],
        "scores": [round(0.99 - 0.06 * ((7 * t) % 13), 3) for t in range(len(PIECES))],
    }
    words = [
        "▁雪の中で",
        "遊ぶ",
        "▁子供",
        "▁أطفال",
        "▁يلعبون",
        "▁<b>&amp;",
        "▁ungewöhnlichundlangundlänger",
        ".",
        "</s>",
    ] * 3
    other = {
        "source": "子供たちが雪の中で遊んでいる。",
        "reference": "أطفال يلعبون في الثلج",
        "tokens": words,
        "exits": [1 + (3 * t + 1) % blocks for t in range(len(words))],
        "scores": [round(0.95 - 0.05 * ((5 * t) % 17), 3) for t in range(len(words))],
    }
    policy = "geometric:" + ",".join(["0.5"] * (blocks - 1))
    return {"format": 1, "run": "tok-ll-geometric-l0.1", "policy": policy, "blocks": blocks, "samples": [latin, other]}


def _position_model(blocks: int, place: int) -> Json:
    start = [n**1.2 + place * n for n in range(1, blocks + 1)]
    end = [(blocks + 1 - n) ** 1.5 for n in range(1, blocks + 1)]
    return {
        "run": "tok-ll-geometric-l0.1",
        "policy": "geometric:" + ",".join([f"{0.5 + 0.1 * place:g}"] * (blocks - 1)),
        "average_exit": 1.3 + 0.3 * place,
        "blocks": blocks,
        "start": [100 * share / sum(start) for share in start],
        "end": [100 * share / sum(end) for share in end],
    }


def _score_model(blocks: int, place: int) -> Json:
    counts = [
        [
            0 if (n + bin_) % 7 == 0 and bin_ < 3 else round(4000 / n**1.5 * 2.0 ** (bin_ - 9 + n / 2)) + 1
            for bin_ in range(10)
        ]
        for n in range(1, blocks + 1)
    ]
    position = _position_model(blocks, place)
    return {key: position[key] for key in ("run", "policy", "average_exit", "blocks")} | {"bins": 10, "counts": counts}
