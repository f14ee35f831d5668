"""Runs of every experiment with invented measurements, as a study would record them."""

import math
from typing import Any

OMEGAS = {"omega-n": "n", "omega-sqrt-n": "sqrt(n)", "omega-inverse-sqrt-n": "1/sqrt(n)", "omega-inverse-n": "1/n"}
GAMMAS = ("0.3", "0.5", "0.7", "0.9", "1.1")
Json = dict[str, Any]


def name_of(variant: str, seed: int) -> str:
    return variant if seed == 1 else f"{variant}.{seed}"


def measurement(split: str, kind: str, policy: str, *, bleu: float, average_exit: float, blocks: int) -> Json:
    share = average_exit / blocks
    return {
        "split": split,
        "kind": kind,
        "policy": policy,
        "family": {"full": "fixed"}.get(kind, policy.partition(":")[0]),
        "bleu": round(bleu, 3),
        "low": round(bleu - 0.9, 3),
        "high": round(bleu + 0.85, 3),
        "tokenized_bleu": round(bleu + 2, 3),
        "chrf": 2 * bleu,
        "average_exit": round(average_exit, 3),
        "exit_counts": [100] * blocks,
        "flops_share": round(share, 3),
        "mflops_per_token": round(
            1.1 + 0.7 * average_exit + (0.4 * average_exit if policy.startswith("confidence") else 0), 3
        ),
        "valid_bleu": round(bleu + 1.25, 3) if kind == "tuned" else None,
        "sentences": 1000,
        "tokens": 12345,
        "beam": 5,
        "signature": "nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:2.4.0",
    }


def depth_bleu(n: float) -> float:
    return 26.5 - 3 * math.exp(-(n - 0.3))


def make_run(
    variant: str,
    seed: int,
    role: str,
    settings: Json,
    measurements: list[Json],
    *,
    blocks: int,
    origin: str | None = None,
) -> Json:
    return {
        "format": 1,
        "run": name_of(variant, seed),
        "variant": variant,
        "seed": seed,
        "role": role,
        "settings": settings,
        "origin": origin,
        "command": f"anydepth train --to runs/{name_of(variant, seed)}",
        "weights": "0123456789ab",
        "updates": 1000,
        "parameters": 1_000_000 + 150_000 * blocks,
        "training_minutes": 3.4,
        "revision": "c869c8e0123",
        "threads": 1,
        "training_seed": seed,
        "blocks": blocks,
        "measurements": measurements,
    }


def _exits_measured(shift: float, blocks: int) -> list[Json]:
    """Fixed exits and the uniform one on both splits."""
    found = []
    for split, lower in (("valid", 0.0), ("test", 1.0)):
        for n in range(1, blocks + 1):
            found.append(
                measurement(
                    split, "fixed", f"fixed:{n}", bleu=depth_bleu(n) + shift - lower, average_exit=n, blocks=blocks
                )
            )
        middle = (blocks + 1) / 2
        found.append(
            measurement(
                split, "uniform", "uniform", bleu=depth_bleu(2) + shift - lower, average_exit=middle, blocks=blocks
            )
        )
    return found


def _full(bleu: float, blocks: int) -> list[Json]:
    return [
        measurement(split, "full", f"fixed:{blocks}", bleu=bleu - (split == "test"), average_exit=blocks, blocks=blocks)
        for split in ("valid", "test")
    ]


def all_runs(blocks: int, seed: int) -> list[Json]:
    nudge = 0.2 * (seed - 1)
    aligned = _exits_measured(0.1 + nudge, blocks)
    for place in range(4):
        exit_ = 1 + (blocks - 1) * (place + 1) / 6
        policy = "confidence:" + ",".join([f"{0.5 + 0.1 * place:g}"] * (blocks - 1))
        aligned.append(
            measurement(
                "test", "tuned", policy, bleu=depth_bleu(exit_) - 0.7 + nudge, average_exit=exit_, blocks=blocks
            )
        )
    runs = [make_run("aligned", seed, "aligned", {"training.mode": "aligned"}, aligned, blocks=blocks)]
    continued = _exits_measured(0.3 + nudge, blocks)
    runs.append(
        make_run("aligned-continued", seed, "continued", {}, continued, blocks=blocks, origin=name_of("aligned", seed))
    )
    for paths in sorted({1, max(1, blocks // 2), blocks}):
        settings = {"training.mode": "mixed", "training.paths": paths}
        runs.append(
            make_run(
                f"mixed-{paths}", seed, "mixed", settings, _exits_measured(nudge - 1 / paths, blocks), blocks=blocks
            )
        )
    for n in range(1, blocks + 1):
        settings = {"model.blocks": n, "model.exits": "last"}
        runs.append(make_run(f"baseline-{n}", seed, "baseline", settings, _full(depth_bleu(n) + nudge, n), blocks=n))
    for place, (variant, weights) in enumerate(OMEGAS.items()):
        settings = {"training.exit_weights": weights}
        runs.append(
            make_run(variant, seed, "omega", settings, _exits_measured(nudge - 0.1 * place, blocks), blocks=blocks)
        )
    for gamma in GAMMAS:
        settings = {"training.gradient_ratio": float(gamma)}
        runs.append(
            make_run(
                f"gamma-{gamma}",
                seed,
                "gamma",
                settings,
                _exits_measured(nudge - float(gamma) / 3, blocks),
                blocks=blocks,
            )
        )
    return runs + _halting_runs(blocks, seed) + _rivals(blocks, seed)


def _halting_runs(blocks: int, seed: int) -> list[Json]:
    runs = []
    for short, oracle in (("c", "correctness"), ("ll", "likelihood")):
        for halting in ("geometric", "multinomial"):
            widths = (0.0, 1.0, 2.0) if (short, halting) == ("ll", "geometric") else (0.0,)
            for penalty in (0.01, 0.1, 0.5):
                for width in widths:
                    runs.append(_halting_run(f"tok-{short}", halting, oracle, penalty, width, blocks=blocks, seed=seed))
    for short, oracle in (("ll", "likelihood"), ("c", "correctness"), ("bleu", "bleu")):
        for penalty in (0.5, 1.0):
            runs.append(_halting_run(f"seq-{short}", "sequence", oracle, penalty, 0.0, blocks=blocks, seed=seed))
    return runs


def _halting_run(name: str, halting: str, oracle: str, penalty: float, width: float, *, blocks: int, seed: int) -> Json:
    variant = (
        (name if halting == "sequence" else f"{name}-{halting}") + f"-l{penalty:g}" + (f"-s{width:g}" if width else "")
    )
    settings: Json = {"exits.halting": halting, "exits.oracle": oracle, "exits.exit_penalty": penalty}
    if halting != "sequence":
        settings["exits.kernel_width"] = width
    exit_ = min(blocks, 1 + (blocks - 1) * 0.6 * math.exp(-4 * penalty) + 0.1 * width)
    worse = {"geometric": 0.2, "multinomial": 0.6, "sequence": 0.4}[halting] - 0.05 * seed
    policy = "geometric:" + ",".join(["0.5"] * (blocks - 1)) if halting == "geometric" else halting
    found = [
        measurement(
            split,
            "default",
            policy,
            bleu=depth_bleu(exit_) - worse - (split == "test"),
            average_exit=exit_,
            blocks=blocks,
        )
        for split in ("valid", "test")
    ]
    if halting == "geometric":
        for place in range(2):
            tuned = 1 + (exit_ - 1) * (0.7 + 0.5 * place)
            thresholds = ",".join([f"{0.4 + 0.2 * place:g}"] * (blocks - 1))
            bleu = depth_bleu(tuned) + 0.2 - worse - 1
            found.append(
                measurement(
                    "test",
                    "tuned",
                    f"geometric:{thresholds}",
                    bleu=bleu,
                    average_exit=min(blocks, tuned),
                    blocks=blocks,
                )
            )
    return make_run(variant, seed, "halting", settings, found, blocks=blocks, origin=name_of("aligned", seed))


def _rivals(blocks: int, seed: int) -> list[Json]:
    shallow = {"model.blocks": 1, "model.encoder.blocks": 2 * blocks}
    runs = [make_run("rival-shallow", seed, "rival", shallow, _full(25.6, 1), blocks=1)]
    for n in range(1, min(4, blocks)):
        runs.append(
            make_run(
                f"rival-distilled-{n}", seed, "rival", {"model.blocks": n}, _full(depth_bleu(n) + 0.3, n), blocks=n
            )
        )
    for rate in (0.2, 0.5):
        settings = {"training.mode": "layerdrop", "training.layer_drop": rate}
        dropped = [m for m in _exits_measured(-0.6 - rate, blocks) if m["kind"] == "fixed"]
        runs.append(make_run(f"rival-layerdrop-{rate}", seed, "rival", settings, dropped, blocks=blocks))
    return runs
