"""Tuning: thresholds for every budget, found by replay or, as in the paper, by decoding every
candidate (section 3.2)."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from anydepth.errors import CorpusError, RunError, UsageError
from anydepth.evaluation.measure import measure
from anydepth.exits.halting import GeometricHalting
from anydepth.exits.parsing import TRAINED, check_not_empty, threshold_family, threshold_policy
from anydepth.exits.policies import FixedExit, Policy
from anydepth.files.atomic import write_text
from anydepth.files.checksums import checked_object, with_checksum
from anydepth.files.reading import checked
from anydepth.files.seal import check_kind
from anydepth.inference.translator import Translation, Translator
from anydepth.messages.say import Say
from anydepth.runs.operating_points import (
    OperatingPoint,
    PointSet,
    kept_points,
    save_points,
    text_fingerprint,
    weights_fingerprint,
)
from anydepth.runs.run import Run, changing, training_data
from anydepth.search.decoding import AS_CONFIGURED, DecodingOptions
from anydepth.text.corpus import read_pairs
from anydepth.text.overlap import MOST_OVERLAP, pairs_seen_in_training
from anydepth.text.prepared import MANIFEST_NAME
from anydepth.text.tokens import TokenPairs, TokenSide
from anydepth.tuning.candidates import (
    DIGITS,
    for_missed_segments,
    promising,
    rank_correlation,
    search_candidates,
    segment_numbers,
)
from anydepth.tuning.replay import record


@dataclass(frozen=True, kw_only=True)
class TuneSettings:
    """How thresholds are looked for: how many candidates, and how many of each segment of the
    average exit are decoded."""

    method: str = "replay"
    candidates: int = 10_000
    segment: float = 0.25
    decoded: int = 1
    seed: int = 1
    decoding: DecodingOptions = AS_CONFIGURED

    def __post_init__(self) -> None:
        if self.method not in ("replay", "decode"):
            raise UsageError(f"--method {self.method} is unknown; use replay or decode")
        if self.candidates < 1 or self.decoded < 1 or not self.segment > 0:
            raise UsageError("tuning needs at least one candidate, one decoding a segment and segments wider than 0")


@dataclass(frozen=True)
class ValidationText:
    """The sentences that thresholds are tuned on."""

    prefix: str
    fingerprint: str
    sources: list[str]
    references: list[str]


def tune_run(folder: Path, valid: str, policy: str | None, settings: TuneSettings, *, say: Say) -> PointSet:
    """The operating points of the run at `folder` on PREFIX `valid`, stored with it: the best BLEU
    in each segment of the average exit.

    Every point has been measured by decoding, and the last is full depth itself. `policy` is the
    family to tune; without one, geometric where the run has it, else confidence.
    """
    with changing(folder):
        return _tuned(folder, valid, policy, settings, say)


def _tuned(folder: Path, valid: str, policy: str | None, settings: TuneSettings, say: Say) -> PointSet:
    """`tune_run` for the one who writes to the run."""
    translator, run = Translator.load(folder), Run(folder)
    family = tunable_family(policy, translator)
    kept_points(run)  # a damaged file is reported before the work and not after it
    text = validation_text(run, valid, say)
    tuner = Tuner(translator, run, family, text, settings, say)
    say(
        f"tuning {family} on {len(text.sources):,} sentences by {settings.method} of {settings.candidates:,} candidates"
    )
    full = tuner.full_depth()
    measured = tuner.by_method(full)
    edges = segment_numbers(np.array([point.average_exit for point in measured]), settings.segment)
    best = {
        number: max((point for at, point in zip(edges, measured, strict=True) if at == number), key=_merit)
        for number in set(edges)
    }
    found = PointSet(
        policy=family,
        method=settings.method,
        candidates=settings.candidates,
        seed=settings.seed,
        beam=tuner.search.beam,
        length_penalty=tuner.search.length_penalty,
        valid=text.prefix,
        valid_fingerprint=text.fingerprint,
        sentences=len(text.sources),
        full_depth_bleu=tuner.full.bleu,
        points=(*(best[number] for number in sorted(best)), tuner.full),
        engine=translator.engine.name,
    )
    save_points(run, found)
    return found


def tunable_family(policy: str | None, translator: Translator) -> str:
    """The family to tune, checked against the model; its name may carry a shortlist's size but no
    thresholds."""
    model = translator.model
    if len(model.config.classifier_exits) < model.blocks or model.blocks == 1:
        raise UsageError("this model has one exit only, so there are no thresholds to tune")
    check_not_empty(policy)
    if policy is None:
        return "geometric" if isinstance(model.halting, GeometricHalting) else "confidence"
    name, _, argument = policy.strip().partition(":")
    if name in TRAINED and name != "geometric":
        raise UsageError(
            f"--policy {policy}: {name} takes the most probable exit and has no thresholds to tune; its depth is "
            "set by exits.exit_penalty"
        )
    family, values = threshold_family(name, argument)
    family = threshold_policy(
        family, [0.5] * (model.blocks - 1), model
    ).family  # refuses what has no thresholds, or not in this model
    if values:
        raise UsageError(f"--policy {policy}: tuning finds the thresholds; name the policy alone, as in {family}")
    return family


def validation_text(run: Run, valid: str, say: Say) -> ValidationText:
    """The pairs of PREFIX `valid`, which must not be empty nor part of the training text."""
    note = run.data_note()
    languages = note["source_lang"], note["target_lang"]
    pairs = list(read_pairs(valid, *languages))
    if not any(source.strip() for source, _ in pairs):
        raise CorpusError(f"{valid}.{languages[0]} has no sentences; thresholds need some held-out text")
    try:
        data = training_data(run)
    except (RunError, CorpusError) as error:
        if isinstance(error, CorpusError) and (Path(note["folder"]) / MANIFEST_NAME).exists():
            raise  # the text is there, and damaged
        say(
            f"warning: the training text is no longer at {note['folder']}, so whether {valid} is part of it was "
            "not looked at"
        )
        seen = []
    else:
        seen = pairs_seen_in_training(data, pairs)
    if seen:
        told = (
            f"{len(seen):,} of the {len(pairs):,} pairs of {valid} are in the training text (the first is line "
            f"{seen[0] + 1:,})"
        )
        if len(seen) > MOST_OVERLAP * len(pairs):
            raise CorpusError(
                f"{told}; thresholds tuned on text that was trained on stop too early, so give held-out text"
            )
        say(f"warning: {told}")
    sources, references = (list(side) for side in zip(*pairs, strict=True))
    return ValidationText(valid, text_fingerprint(valid, *languages), sources, references)


class Tuner:
    """One tuning: measures policies on the validation text, each once, and remembers on disk what
    it has measured."""

    def __init__(
        self, translator: Translator, run: Run, family: str, text: ValidationText, settings: TuneSettings, say: Say
    ) -> None:
        self.translator, self.family, self.text, self.settings, self.say = translator, family, text, settings, say
        self.decisions = translator.model.blocks - 1
        self.file = run.folder / "tuning.jsonl"
        check_kind(self.file)
        self.search = settings.decoding.resolved(translator.config)
        self.recipe = {
            "weights": weights_fingerprint(run),
            "valid": text.fingerprint,
            "beam": self.search.beam,
            "length_penalty": self.search.length_penalty,
        }
        self.full = OperatingPoint("", 0.0, 0.0, 0.0)  # until full_depth has measured it

    def full_depth(self) -> list[Translation]:
        """The translations of full depth, whose BLEU every drop is measured from."""
        policy = FixedExit(self.translator.model.blocks, self.translator.model.blocks)
        self.full, translations = self._decode(policy)
        self.say(f"full depth: BLEU {self.full.bleu:.2f}")
        return translations

    def by_method(self, full: Sequence[Translation]) -> list[OperatingPoint]:
        """The points that the method of the settings finds."""
        match self.settings.method:
            case "decode":
                return self.by_decoding()
            case "replay":
                return self.by_replay(full)
            case other:
                raise UsageError(f"--method {other} is unknown; use replay or decode")

    def by_decoding(self) -> list[OperatingPoint]:
        """Every candidate decoded: thresholds drawn from U(0, 1)^(N - 1), as in the paper (section
        3.2)."""
        generator = np.random.default_rng(self.settings.seed)
        candidates = np.round(generator.random((self.settings.candidates, self.decisions)), DIGITS)
        return self.measured(candidates)

    def by_replay(self, full: Sequence[Translation]) -> list[OperatingPoint]:
        """All candidates scored on two records, and the best of each segment decoded.

        Cost is read off the model's own translations at full depth, quality off the references: the
        mean log-likelihood of their words at the exits taken.
        """
        policy = threshold_policy(self.family, [0.5] * self.decisions, self.translator.model)
        own = record(self.translator.model, self.pairs([translation.text for translation in full]), policy)
        given = record(self.translator.model, self.pairs(self.text.references), policy)
        segment, count = self.settings.segment, self.settings.candidates
        candidates, costs, worth = search_candidates(own, given, count=count, segment=segment, seed=self.settings.seed)
        chosen = promising(costs.average_exits, worth.log_likelihoods, segment=segment, count=self.settings.decoded)
        exits, shares = (f"{min(each):.2f}-{max(each):.2f}" for each in (costs.average_exits, costs.flops_shares))
        self.say(
            f"replayed {len(candidates):,} candidates (AE {exits}, FLOPs {shares} of full depth); decoding the "
            f"{len(chosen)} most promising"
        )
        points = self.measured(candidates[chosen])
        correlation = rank_correlation([point.bleu for point in points], worth.log_likelihoods[chosen])
        if not np.isnan(correlation):
            self.say(f"rank correlation (Spearman) of what replay expected and what decoding gave: {correlation:.2f}")
        decoded = np.array([point.average_exit for point in points])
        missed = for_missed_segments(costs.average_exits, worth.log_likelihoods, chosen, decoded, segment=segment)
        if not len(missed):
            return points
        self.say(f"decoding {len(missed)} more for segments whose candidates came out in others")
        return points + self.measured(candidates[missed])

    def measured(self, candidates: Float[np.ndarray, "candidate decision"]) -> list[OperatingPoint]:
        """The points of the candidates, decoded now unless they were decoded before with the same
        weights, text and beam."""
        before = self._remembered()
        known = {point.policy: point for recipe, point in before if recipe == self.recipe}
        points = []
        for number, thresholds in enumerate(candidates.tolist(), 1):
            policy = threshold_policy(self.family, thresholds, self.translator.model)
            if policy.name not in known:
                known[policy.name] = self._decode(policy)[0]
                before.append((self.recipe, known[policy.name]))
                write_text(self.file, "".join(remembered_line(recipe, point) for recipe, point in before))
            point = known[policy.name]
            self.say(f"{number}/{len(candidates)}  {point.describe()}")
            points.append(point)
        return points

    def _decode(self, policy: Policy) -> tuple[OperatingPoint, list[Translation]]:
        figures, translations = measure(
            self.translator, self.text.sources, self.text.references, policy, self.settings.decoding
        )
        return OperatingPoint(
            policy.name, figures.scores.bleu.value, figures.average_exit, figures.flops_share
        ), translations

    def pairs(self, targets: Sequence[str]) -> TokenPairs:
        """The sources as they are translated, with these targets: blank lines are not, and long
        ones are cut."""
        limit = self.translator.model.config.max_length
        sources = self.translator.source_tokenizer.encode_lines(
            [line if line.strip() else "" for line in self.text.sources]
        )
        outputs = self.translator.target_tokenizer.encode_lines(list(targets))
        pairs = [
            (source[:limit], output[: limit - 1]) for source, output in zip(sources, outputs, strict=True) if source
        ]
        return TokenPairs(*(TokenSide.from_sentences([pair[side] for pair in pairs]) for side in (0, 1)))

    def _remembered(self) -> list[tuple[dict[str, Any], OperatingPoint]]:
        """The recipes and points that earlier tunings measured with the same weights; lines that
        are damaged are passed over."""
        lines = self.file.read_text(encoding="utf-8", errors="replace").splitlines() if self.file.exists() else []
        found = []
        for line in lines:
            try:
                value = checked_object(line)
                found.append((dict(value["recipe"]), checked(OperatingPoint, value["point"])))
            except (ValueError, KeyError, TypeError):
                continue
        return [(recipe, point) for recipe, point in found if recipe.get("weights") == self.recipe["weights"]]


def remembered_line(recipe: Mapping[str, Any], point: OperatingPoint) -> str:
    """A line of tuning.jsonl."""
    return json.dumps(with_checksum({"recipe": recipe, "point": asdict(point)})) + "\n"


def _merit(point: OperatingPoint) -> tuple[float, float]:
    return point.bleu, -point.average_exit
