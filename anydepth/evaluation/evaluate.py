"""A run on a test set with several policies, and the recipe of the figures."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from anydepth import __version__
from anydepth.clock.machine import timed_otherwise
from anydepth.errors import CorpusError, UsageError
from anydepth.evaluation.measure import Measurement, executed_mflops_per_token, measure
from anydepth.evaluation.significance import paired_bootstrap
from anydepth.exits.names import THRESHOLD_FAMILIES
from anydepth.exits.parsing import threshold_family
from anydepth.files.atomic import write_text
from anydepth.files.checksums import known_hash
from anydepth.inference.engines.names import AUTOMATIC
from anydepth.inference.translator import Translator
from anydepth.messages.say import Say
from anydepth.runs.fingerprints import text_fingerprint
from anydepth.runs.operating_points import PointSet, Wish
from anydepth.runs.run import Run
from anydepth.search.decoding import AS_CONFIGURED, DecodingOptions
from anydepth.text.corpus import open_lines, read_pairs, side_path
from anydepth.text.overlap import MOST_OVERLAP, pairs_in
from anydepth.vocabulary.selection import WordSelection

EACH_EXIT = "each"


@dataclass(frozen=True)
class EvaluationRecipe:
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

    recipe: EvaluationRecipe
    results: list[Measurement]


@dataclass(frozen=True, kw_only=True)
class EvaluationSettings:
    """What is measured beside the policies that are named, and how.

    With a `wish`, a policy that is a mere family stands for its operating point that meets the wish
    best; where there is none, the best operating point is measured, too. `output`, where given,
    gets the translations of the last policy. `against` is a policy, or a file of translations, that
    all others are compared with by paired bootstrap. `is_counted` asks for the FLOPs that were
    really executed.
    """

    wish: Wish | None = None
    output: Path | None = None
    against: str | None = None
    is_counted: bool = False
    decoding: DecodingOptions = AS_CONFIGURED
    engine: str = AUTOMATIC
    int8: bool = False

    @property
    def wished(self) -> str | None:
        """The wish in words, if there is one."""
        return None if self.wish is None or self.wish.is_empty else self.wish.describe()


def evaluate_run(
    folder: Path,
    test: str,
    policies: Sequence[str],
    settings: EvaluationSettings | None = None,
    *,
    say: Say,
) -> Evaluation:
    """The figures of the run at `folder` on PREFIX `test` for each policy; "each" stands for all
    fixed exits and uniform."""
    settings = settings or EvaluationSettings()
    output, against, decoding = settings.output, settings.against, settings.decoding
    if output is not None and (output.is_dir() or not output.parent.is_dir()):
        raise UsageError(f"--output {output} must be a file in a folder that exists")
    if output is not None:
        check_output(output, Run(folder), test, against)
    translator, run = Translator.load(folder, engine=settings.engine, int8=settings.int8), Run(folder)
    note = run.data_note()
    wanted = wished_policies(policies, translator, settings.wish, vocabulary=decoding.vocabulary)
    chosen = [translator.policy(each.name) for each in wanted]
    pairs = list(read_pairs(test, note["source_lang"], note["target_lang"]))
    sources, references = zip(*pairs, strict=True)
    for each in wanted:
        if each.found is not None and (doubts := tuning_doubts(each.found, translator, test, pairs, settings)):
            say(f"warning: {each.name} {doubts}")
    rival = None if against is None else rival_lines(against, translator, sources, decoding, say)
    results, lines = [], []
    for each, policy in zip(wanted, chosen, strict=True):
        say(f"translating {len(sources):,} sentences with {policy.name}")
        own = replace(decoding, vocabulary=each.vocabulary)
        result, translations = measure(translator, sources, references, policy, own)
        lines = [translation.text for translation in translations]
        if settings.is_counted:
            executed = executed_mflops_per_token(translator, sources, policy, own)
            result = replace(result, executed_mflops_per_token=executed)
        if rival is not None:
            result = replace(result, comparison=paired_bootstrap(lines, rival, references))
        results.append(result)
    if output is not None:
        write_text(output, "".join(translation.line + "\n" for translation in translations))
    languages = f"{note['source_lang']}-{note['target_lang']}"
    return Evaluation(make_recipe(run, test, languages, translator.engine.name, against, settings.wished), results)


def check_output(output: Path, run: Run, test: str, against: str | None = None, *, option: str = "--output") -> None:
    """Refuses to write over what is measured: the test set, the lines to compare with, a file of
    the run."""
    note = run.data_note()
    sides = [side_path(test, note[f"{side}_lang"]) for side in ("source", "target")]
    inputs = [*sides, *([Path(against)] if against is not None else [])]
    if output.exists() and any(path.exists() and output.samefile(path) for path in inputs):
        raise UsageError(f"{option} {output} is a file that is measured with, and would be lost; choose another")
    if output.exists() and output.resolve().is_relative_to(run.folder.resolve()):
        raise UsageError(f"{option} {output} is a file of the run {run.folder}; choose another")


def wished_names(policies: Sequence[str], translator: Translator, wish: Wish | None) -> list[str | None]:
    """The names of the policies to measure, families replaced by the operating point that meets the
    wish best."""
    return [each.name for each in wished_policies(policies, translator, wish)]


@dataclass(frozen=True)
class ChosenPolicy:
    """A policy to measure, full depth if None, with the words that it chooses from, and the tuning
    that found it where a wish chose it."""

    name: str | None
    vocabulary: WordSelection | str | None
    found: PointSet | None = None


def wished_policies(
    policies: Sequence[str],
    translator: Translator,
    wish: Wish | None,
    *,
    vocabulary: WordSelection | str | None = None,
) -> list[ChosenPolicy]:
    """The policies to measure; those that a wish chose have the vocabulary setting that they were
    tuned with, which is `vocabulary` where that is given.

    A wish is never passed over: where no family is named, the best operating point of all comes
    last.
    """
    if wish is None or wish.is_empty:
        return [ChosenPolicy(name, vocabulary) for name in policy_names(policies, translator)]

    def wished(family: str | None) -> ChosenPolicy:
        point, found = translator.operating_point(wish, policy=family, vocabulary=vocabulary)
        return ChosenPolicy(point.policy, point.vocabulary, found)

    names = policy_names(policies, translator) if policies else []
    if not any(map(is_family, names)):
        return [*(ChosenPolicy(name, vocabulary) for name in names), wished(None)]
    return [wished(name) if is_family(name) else ChosenPolicy(name, vocabulary) for name in names]


def tuning_doubts(
    found: PointSet, translator: Translator, test: str, pairs: Sequence[tuple[str, str]], settings: EvaluationSettings
) -> str:
    """Why figures of a point say less than they seem to: it was tuned on this text, with another
    search, or timed otherwise; empty where it was not."""
    search = translator.search_settings(settings.decoding.among(found.vocabulary))
    otherwise = found.otherwise(search, engine=translator.engine.name)
    clocked = timed_otherwise(found, settings.wish, translator.engine, search) if settings.wish is not None else ""
    parts = [
        tuned_on(found, translator, test, pairs),
        f"was tuned with beam {found.beam}, length penalty {found.length_penalty:g}, and is measured with {otherwise}"
        if otherwise
        else "",
        f"was timed otherwise than here: {clocked}" if clocked else "",
    ]
    return "; it ".join(part for part in parts if part)


def tuned_on(found: PointSet, translator: Translator, test: str, pairs: Sequence[tuple[str, str]]) -> str:
    """How much of the test text a point was tuned on, in words; empty where none of it is known to
    be."""
    assert translator.run is not None
    note = translator.run.data_note()
    languages = note["source_lang"], note["target_lang"]
    if text_fingerprint(test, *languages) == found.valid_fingerprint:
        return "was tuned on this very text, so its BLEU here is not that of unseen text"
    try:
        seen = pairs_in(pairs, read_pairs(found.valid, *languages))
    except CorpusError:
        return ""  # the text is no longer where it was, and its fingerprint is another
    if len(seen) <= MOST_OVERLAP * len(pairs):
        return ""
    return (
        f"was tuned on {found.valid}, which has {len(seen):,} of these {len(pairs):,} pairs (the first is "
        f"line {seen[0] + 1:,})"
    )


def is_family(policy: str | None) -> bool:
    """Whether `policy` has thresholds but does not name them, as in "geometric" or
    "shortlist:64"."""
    name, _, argument = (policy or "").partition(":")
    return name in THRESHOLD_FAMILIES and not threshold_family(name, argument)[1]


def rival_lines(
    against: str, translator: Translator, sources: Sequence[str], decoding: DecodingOptions, say: Say
) -> list[str]:
    """The translations to compare with: the lines of a file of that name, or else those of the
    policy of that name."""
    path = Path(against)
    if path.is_file():
        lines = list(open_lines(path))
        if len(lines) != len(sources):
            raise UsageError(
                f"--against {against} has {len(lines):,} lines, but the test set has {len(sources):,} sentences"
            )
        return lines
    try:
        policy = translator.policy(against)
    except UsageError as error:
        raise UsageError(f"--against {against} is no file, and as a policy: {error}") from error
    say(f"translating {len(sources):,} sentences with {policy.name}, to compare with")
    return [translation.text for translation in translator.translate_lines(sources, policy, decoding)]


def policy_names(policies: Sequence[str], translator: Translator) -> list[str | None]:
    """`policies` with "each" written out; full depth (None) where there are none."""
    shape = translator.model.config
    every = [f"fixed:{n}" for n in shape.classifier_exits] + (["uniform"] if shape.exits == "all" else [])
    names = [name for policy in policies for name in (every if policy == EACH_EXIT else [policy])]
    return list(names) or [None]


def make_recipe(
    run: Run, test: str, languages: str, engine: str, against: str | None = None, wish: str | None = None
) -> EvaluationRecipe:
    """The recipe for figures that are measured now, in this process."""
    weights = known_hash(run.weights_file)[:12]
    versions = (__version__, torch.__version__, torch.get_num_threads())
    return EvaluationRecipe(str(run.folder), weights, test, languages, *versions, engine, against, wish)
