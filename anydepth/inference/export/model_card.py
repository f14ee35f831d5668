"""The model card of an exported folder: what it is, how it was made, and what was measured of it."""

from typing import TypeAlias

from anydepth import __version__
from anydepth.exits.policies import FixedExit
from anydepth.runs.fingerprints import weights_fingerprint
from anydepth.runs.metrics import read_metrics
from anydepth.runs.operating_points import PointSet, kept_points
from anydepth.runs.run import ADOPTED, Run

Row: TypeAlias = tuple[str, str, str, str]

CARD = """---
library_name: transformers
pipeline_tag: translation
tags:
- translation
- marian
- anydepth
---

# {source} to {target}

A MarianMT model that anydepth {version} exported: {cut}

```python
from transformers import MarianMTModel, MarianTokenizer

tokenizer, model = MarianTokenizer.from_pretrained("."), MarianMTModel.from_pretrained(".")
batch = tokenizer(["..."], return_tensors="pt", padding=True)
print(tokenizer.batch_decode(model.generate(**batch), skip_special_tokens=True))
```

## How it was made

{recipe}

## What was measured

{measured}
"""


def model_card(run: Run, *, exit: int) -> str:
    """The text of README.md."""
    note, blocks = run.data_note(), run.config.model.blocks
    return CARD.format(
        source=note["source_lang"],
        target=note["target_lang"],
        version=__version__,
        cut=_wrapped_cut(exit, blocks),
        recipe="\n".join(f"- {line}" for line in _recipe(run)),
        measured=_measured(run, exit=exit),
    )


def _wrapped_cut(exit: int, blocks: int) -> str:
    if exit == blocks:
        return f"all {blocks} blocks of its\ndecoder."
    return f"the first {exit} of\n{blocks} blocks of its decoder, with the classifier of exit {exit}."


def _recipe(run: Run) -> list[str]:
    """The facts that distinguish the model from others."""
    config, note = run.config, run.data_note()
    model, training = config.model, config.training
    lines = [
        f"encoder: {model.encoder.blocks} blocks of width {model.encoder.dim} ({model.encoder.ffn_dim}), "
        f"{model.encoder_heads} heads; decoder: {model.blocks} blocks of width {model.decoder.dim} "
        f"({model.decoder.ffn_dim}), {model.heads} heads; {model.activation}",
        f"search: beam {config.decoding.beam}, length penalty {config.decoding.length_penalty:g}",
        f"weights: SHA-256 {weights_fingerprint(run)}",
    ]
    if ADOPTED in note:
        return [*lines, "trained elsewhere, and adopted from a MarianMT folder"]
    return [
        *lines,
        f"training: mode {training.mode}, {training.updates:,} updates at most, learning rate "
        f"{training.learning_rate:g}, label smoothing {training.label_smoothing:g}, seed {training.seed}",
        f"data: fingerprint {note['fingerprint']}",
    ]


def _measured(run: Run, *, exit: int) -> str:
    """A table of what the run has measured of this exit; a score never travels without the settings
    that made it."""
    rows = [row for found in kept_points(run) for row in _tuned_rows(found, exit=exit, blocks=run.config.model.blocks)]
    rows += _validation_rows(run, exit=exit)
    if not rows:
        return "Nothing: measure it with `anydepth evaluate`, or with sacreBLEU on what `generate` gives."
    head = ["| figure | value | text | search |", "|---|---|---|---|"]
    return "\n".join([*head, *(f"| {' | '.join(row)} |" for row in dict.fromkeys(rows))])


def _tuned_rows(found: PointSet, *, exit: int, blocks: int) -> list[Row]:
    text, search = f"{found.valid}, {found.sentences:,} sentences", f"beam {found.beam}, {found.engine or 'float32'}"
    if found.judge == "full-depth":
        text += ", against what full depth makes of them"
    name = FixedExit(exit, blocks).name
    rows = [("BLEU", f"{point.bleu:.2f}", text, search) for point in found.points if point.policy == name]
    return [("BLEU", f"{found.full_depth_bleu:.2f}", text, search)] if exit == blocks else rows


def _validation_rows(run: Run, *, exit: int) -> list[Row]:
    """What the last validation of training found at this exit."""
    validations = [values for _, values in read_metrics(run) if values.get("event") == "valid"]
    exits = run.config.model.classifier_exits
    if not validations or exit not in exits:
        return []
    last, place = validations[-1], exits.index(exit)
    rows: list[Row] = []
    where = f"validation text of training, update {last['update']:,}"
    for figure, name, digits, search in (("nll", "NLL per token", 3, "none"), ("bleu", "BLEU", 2, "greedy, torch")):
        values = last.get(figure)
        if isinstance(values, list) and len(values) == len(exits):
            rows.append((name, f"{values[place]:.{digits}f}", where, search))
    return rows
