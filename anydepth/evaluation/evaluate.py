"""A run on a test set with several policies, and the recipe of the figures."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from anydepth import __version__
from anydepth.atomic import write_text
from anydepth.errors import UsageError
from anydepth.evaluation.measure import Measurement, measure
from anydepth.inference.translator import Translator
from anydepth.model.run import Run
from anydepth.text.corpus import read_pairs
from anydepth.text.prepare import file_hash

EACH_EXIT = "each"


@dataclass(frozen=True)
class Recipe:
    """What the figures of an evaluation were made from."""

    run: str
    weights: str
    test: str
    languages: str
    anydepth: str
    torch: str
    threads: int


@dataclass(frozen=True)
class Evaluation:
    """The figures of every policy, with their recipe."""

    recipe: Recipe
    results: list[Measurement]


def evaluate_run(
    folder: Path,
    test: str,
    policies: Sequence[str],
    *,
    output: Path | None = None,
    beam: int | None = None,
    length_penalty: float | None = None,
    batch_tokens: int | None = None,
    say: Callable[[str], None],
) -> Evaluation:
    """The figures of the run at `folder` on PREFIX `test` for each policy; "each" stands for all fixed exits and uniform.

    `output`, where given, gets the translations of the last policy.
    """
    if output is not None and (output.is_dir() or not output.parent.is_dir()):
        raise UsageError(f"--output {output} must be a file in a folder that exists")
    translator, run = Translator.load(folder), Run(folder)
    note = run.data_note()
    chosen = [translator.policy(name) for name in policy_names(policies, translator)]
    sources, references = zip(*read_pairs(test, note["source_lang"], note["target_lang"]), strict=True)
    results = []
    for policy in chosen:
        say(f"translating {len(sources):,} sentences with {policy.name}")
        result, translations = measure(
            translator, sources, references, policy, beam=beam, length_penalty=length_penalty, batch_tokens=batch_tokens
        )
        results.append(result)
    if output is not None:
        write_text(output, "".join(translation.line + "\n" for translation in translations))
    return Evaluation(make_recipe(run, test, f"{note['source_lang']}-{note['target_lang']}"), results)


def policy_names(policies: Sequence[str], translator: Translator) -> list[str | None]:
    """`policies` with "each" written out; full depth (None) where there are none."""
    shape = translator.model.config
    every = [f"fixed:{n}" for n in shape.classifier_exits] + (["uniform"] if shape.exits == "all" else [])
    names = [name for policy in policies for name in (every if policy == EACH_EXIT else [policy])]
    return list(names) or [None]


def make_recipe(run: Run, test: str, languages: str) -> Recipe:
    """The recipe for figures that are measured now, in this process."""
    weights = file_hash(run.weights_file)[:12]
    return Recipe(str(run.folder), weights, test, languages, __version__, torch.__version__, torch.get_num_threads())
