"""Greedy translation of one sentence by the files of an ONNX export alone, as any language can do
it that has ONNX Runtime and JSON.

It follows the export's README.txt, and has nothing of anydepth in it on purpose: what it needs and
the export lacks, nobody would have.
"""

import json
from pathlib import Path

import numpy as np
import onnxruntime

START, END, NEVER_PRODUCED = 1, 2, [0, 1, 3]


class Export:
    """The graphs of an export by name."""

    def __init__(self, folder: Path) -> None:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        files = {file.stem: str(file) for file in folder.glob("*.onnx")}
        self.sessions = {
            name: onnxruntime.InferenceSession(file, options, providers=["CPUExecutionProvider"])
            for name, file in files.items()
        }
        self.blocks = sum(name.startswith("block") for name in files)
        self.classifiers = sorted(name for name in files if name.startswith("classifier"))

    def run(self, name: str, **inputs: np.ndarray) -> list[np.ndarray]:
        """The outputs of a graph."""
        outputs: list[np.ndarray] = self.sessions[name].run(None, inputs)
        return outputs

    def classifier(self, n: int) -> str:
        """The name of the graph that scores words for tokens that leave at exit n."""
        return self.classifiers[0] if len(self.classifiers) == 1 else f"classifier{n}"


def read_thresholds(folder: Path, *, number: int) -> list[float]:
    """The thresholds of one of the export's operating points of the halting module, one for each
    block but the last."""
    sets = json.loads((folder / "operating_points.json").read_text(encoding="utf-8"))["sets"]
    points = next(each["points"] for each in sets if each["policy"] == "geometric")
    numbers = [float(text) for text in points[number]["policy"].rpartition(":")[2].split(",")]
    blocks = len(list(folder.glob("block*.onnx")))
    return numbers * (blocks - 1) if len(numbers) == 1 else numbers


def translate_alone(
    folder: Path, source: list[int], thresholds: list[float], *, limit: int
) -> tuple[list[int], list[int]]:
    """The tokens, END included, of the translation of `source`, END included, and the exits of
    these tokens."""
    export = Export(folder)
    source_mask = np.ones((1, len(source)), bool)
    (memory,) = export.run("encoder", source=np.array([source]), source_mask=source_mask)
    source_pairs = {n: export.run(f"source{n}", memory=memory) for n in range(1, export.blocks + 1)}
    # by block, keys and values of each position
    past: dict[int, list[list[np.ndarray]]] = {n: [] for n in range(1, export.blocks + 1)}
    tokens, exits = [START], []
    while tokens[-1] != END and len(exits) < limit:
        (states,) = export.run("embedding", tokens=np.array(tokens[-1:]), position=np.array([len(exits)]))
        leaves_at = export.blocks
        for n in range(1, export.blocks + 1):
            past[n].append(export.run(f"keys_values{n}", states=states))  # above its exit those of the copied state
            if n > leaves_at:
                continue
            # (1, head, time, head_dim)
            keys, values = (np.stack([pair[part] for pair in past[n]], axis=2) for part in (0, 1))
            (states,) = export.run(
                f"block{n}",
                states=states,
                keys=keys,
                values=values,
                mask=np.ones(len(past[n]), bool),
                source_keys=source_pairs[n][0],
                source_values=source_pairs[n][1],
                source_mask=source_mask,
                grid=np.array([[0]]),
                place=np.array([0]),
            )
            if n < export.blocks and should_stop(export, states, thresholds[n - 1]):
                leaves_at = n
        scored = states
        if f"adapter{leaves_at}" in export.sessions:
            (scored,) = export.run(f"adapter{leaves_at}", states=states)
        (logits,) = export.run(export.classifier(leaves_at), states=scored)
        logits[:, NEVER_PRODUCED] = -np.inf
        tokens.append(int(logits[0].argmax()) if len(exits) + 1 < limit else END)
        exits.append(leaves_at)
    return tokens[1:], exits


def should_stop(export: Export, states: np.ndarray, threshold: float) -> bool:
    """Whether the token with these states leaves now."""
    if threshold in (0, 1):
        return threshold == 0
    (probability,) = export.run("halting", states=states)
    return bool(probability[0] > threshold)
