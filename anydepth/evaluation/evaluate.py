"""A run on a test set with several policies, and the recipe of the figures."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch

from anydepth import __version__
from anydepth.atomic import write_text
from anydepth.checksums import known_hash
from anydepth.errors import UsageError
from anydepth.evaluation.measure import Measurement, executed_mflops_per_token, measure
from anydepth.evaluation.significance import paired_bootstrap
from anydepth.exits.names import THRESHOLD_FAMILIES
from anydepth.exits.parsing import threshold_family
from anydepth.inference.engines import AUTOMATIC
from anydepth.inference.points import Wish
from anydepth.inference.translator import Translator
from anydepth.model.run import Run
from anydepth.text.corpus import open_lines, read_pairs

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
    engine: str
    against: str | None
    wish: str | None


@dataclass(frozen=True)
class Evaluation:
    """The figures of every policy, with their recipe."""

    recipe: Recipe
    results: list[Measurement]


@dataclass(frozen=True)
class Options:
    """How a test set is translated; what is not given comes from the run."""

    beam: int | None = None
    length_penalty: float | None = None
    batch_tokens: int | None = None


def evaluate_run(
    folder: Path,
    test: str,
    policies: Sequence[str],
    *,
    wish: Wish | None = None,
    output: Path | None = None,
    against: str | None = None,
    is_counted: bool = False,
    options: Options | None = None,
    engine: str = AUTOMATIC,
    int8: bool = False,
    say: Callable[[str], None],
) -> Evaluation:
    """The figures of the run at `folder` on PREFIX `test` for each policy; "each" stands for all fixed exits and uniform.

    With a `wish`, a policy that is a mere family stands for its operating point that meets the wish best; where there is none, the best
    operating point is measured, too. `output`, where given, gets the translations of the last policy. `against` is a policy, or a file of
    translations, that all others are compared with by paired bootstrap. `is_counted` asks for the FLOPs that were really executed.
    """
    if output is not None and (output.is_dir() or not output.parent.is_dir()):
        raise UsageError(f"--output {output} must be a file in a folder that exists")
    translator, run, given = Translator.load(folder, engine=engine, int8=int8), Run(folder), asdict(options or Options())
    note = run.data_note()
    chosen = [translator.policy(name) for name in wished_names(policies, translator, wish)]
    sources, references = zip(*read_pairs(test, note["source_lang"], note["target_lang"]), strict=True)
    rival = None if against is None else rival_lines(against, translator, sources, given, say)
    results, lines = [], []
    for policy in chosen:
        say(f"translating {len(sources):,} sentences with {policy.name}")
        result, translations = measure(translator, sources, references, policy, **given)
        lines = [translation.text for translation in translations]
        if is_counted:
            result = replace(result, executed_mflops_per_token=executed_mflops_per_token(translator, sources, policy, **given))
        if rival is not None:
            result = replace(result, comparison=paired_bootstrap(lines, rival, references))
        results.append(result)
    if output is not None:
        write_text(output, "".join(translation.line + "\n" for translation in translations))
    wished = wish.describe() if wish is not None and wish.is_made else None
    recipe = make_recipe(run, test, f"{note['source_lang']}-{note['target_lang']}", translator.engine.name, against, wished)
    return Evaluation(recipe, results)


def wished_names(policies: Sequence[str], translator: Translator, wish: Wish | None) -> list[str | None]:
    """The names of the policies to measure, families replaced by the operating point that meets the wish best.

    A wish is never passed over: where no family is named, the best operating point of all comes last.
    """
    if wish is None or not wish.is_made:
        return policy_names(policies, translator)
    names = policy_names(policies, translator) if policies else []
    if not any(is_family(name) for name in names):
        return [*names, translator.operating_point(wish)[0].policy]
    return [translator.operating_point(wish, policy=name)[0].policy if is_family(name) else name for name in names]


def is_family(policy: str | None) -> bool:
    """Whether `policy` has thresholds but does not name them, as in "geometric" or "shortlist:64"."""
    name, _, argument = (policy or "").partition(":")
    return name in THRESHOLD_FAMILIES and not threshold_family(name, argument)[1]


def rival_lines(
    against: str, translator: Translator, sources: Sequence[str], given: Mapping[str, Any], say: Callable[[str], None]
) -> list[str]:
    """The translations to compare with: the lines of a file of that name, or else those of the policy of that name."""
    path = Path(against)
    if path.is_file():
        lines = list(open_lines(path))
        if len(lines) != len(sources):
            raise UsageError(f"--against {against} has {len(lines):,} lines, but the test set has {len(sources):,} sentences")
        return lines
    try:
        policy = translator.policy(against)
    except UsageError as error:
        raise UsageError(f"--against {against} is no file, and as a policy: {error}") from error
    say(f"translating {len(sources):,} sentences with {policy.name}, to compare with")
    return [translation.text for translation in translator.translate(sources, policy=policy, **given)]


def policy_names(policies: Sequence[str], translator: Translator) -> list[str | None]:
    """`policies` with "each" written out; full depth (None) where there are none."""
    shape = translator.model.config
    every = [f"fixed:{n}" for n in shape.classifier_exits] + (["uniform"] if shape.exits == "all" else [])
    names = [name for policy in policies for name in (every if policy == EACH_EXIT else [policy])]
    return list(names) or [None]


def make_recipe(run: Run, test: str, languages: str, engine: str, against: str | None = None, wish: str | None = None) -> Recipe:
    """The recipe for figures that are measured now, in this process."""
    weights = known_hash(run.weights_file)[:12]
    versions = (__version__, torch.__version__, torch.get_num_threads())
    return Recipe(str(run.folder), weights, test, languages, *versions, engine, against, wish)
