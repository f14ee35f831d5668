"""Looking at words: single sentences, positions and scores of one run at three depths (figures 6 to
9)."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from anydepth.errors import UsageError
from anydepth.evaluation.measure import average_exit
from anydepth.experiments.definition import Study
from anydepth.experiments.evidence import Estimate, ratio_estimate
from anydepth.experiments.measuring import tuned_points
from anydepth.experiments.records import (
    FORMAT,
    PositionModelRecord,
    PositionsRecord,
    SampleRecord,
    ScoreModelRecord,
    ScoresRecord,
    TokensRecord,
    read_record,
    write_record,
)
from anydepth.experiments.study_folder import StudyFolder
from anydepth.figures.positions import position_histograms
from anydepth.figures.probabilities import BINS, joint_histogram
from anydepth.figures.recorded import probability
from anydepth.inference.translator import Translation, Translator
from anydepth.messages.say import Say
from anydepth.model.checkpoint import load_tensors, save_tensors
from anydepth.text.prepared import PreparedData

DEPTHS = (0.4, 0.6, 0.8)  # of N: the paper's three models have average exits of 2.53, 3.79 and 4.68 of 6
SHOWN = 3
SHOWN_LENGTHS = (6, 16)
Sentences = Float[np.ndarray, "sentence 4"]


@dataclass(frozen=True)
class SampledModel:
    """The test set translated by one run with one policy."""

    run: str
    policy: str
    blocks: int
    translations: Sequence[Translation]

    @property
    def average_exit(self) -> float:
        """As the records hold it."""
        return round(average_exit(self.translations), 4)


def look_at_words(study: Study, folder: StudyFolder, run: str, *, say: Say) -> None:
    """Translates the test set at three depths of a run and writes what its words show."""
    translator = Translator.load(folder.run(run))
    sources, references = PreparedData.open(Path(study.data.folder)).references("test")
    positions, scores = [], []
    counted: dict[str, Tensor] = {}
    for number, policy in enumerate(chosen_policies(translator)):
        say(f"translating the test set with {policy}")
        model = SampledModel(run, policy, translator.model.blocks, translator.translate(sources, policy=policy))
        starts, likely = ends_of_sentences(model.translations), probabilities(model.translations, model.blocks)
        positions.append(position_record(model, starts))
        scores.append(score_record(model, likely))
        counted |= {f"positions/{number}": torch.from_numpy(starts), f"scores/{number}": torch.from_numpy(likely)}
        if number == 0:
            samples = shown_sentences(model.translations, sources, references)
            tokens = TokensRecord(format=FORMAT, run=run, policy=policy, blocks=model.blocks, samples=samples)
            write_record(folder.tokens_file, tokens)
    folder.statistics.mkdir(parents=True, exist_ok=True)
    save_tensors(folder.word_statistics, counted)
    write_record(folder.positions_file, PositionsRecord(format=FORMAT, models=positions))
    write_record(folder.scores_file, ScoresRecord(format=FORMAT, models=scores))


def chosen_policies(translator: Translator) -> list[str]:
    """The tuned points whose average exits are nearest to the three depths; each once."""
    points = tuned_points(translator, "geometric")
    wanted = [share * translator.model.blocks for share in DEPTHS]
    nearest = [min(points, key=lambda point: abs(point.average_exit - depth)).policy for depth in wanted]
    return list(dict.fromkeys(nearest))


def shown_sentences(
    translations: Sequence[Translation], sources: Sequence[str], references: Sequence[str]
) -> list[SampleRecord]:
    """The first sentences of the test set whose translations are neither very short nor very long;
    none is picked by hand."""
    low, high = SHOWN_LENGTHS
    fitting = [number for number, translation in enumerate(translations) if low <= len(translation.exits) <= high]
    return [
        SampleRecord(
            source=sources[number],
            reference=references[number],
            tokens=translations[number].tokens,
            exits=translations[number].exits,
            scores=[round(probability(score), 4) for score in translations[number].scores],
        )
        for number in (fitting or range(len(translations)))[:SHOWN]
    ]


def position_record(model: SampledModel, sentences: Sentences) -> PositionModelRecord:
    """The distributions of figure 8, in percent, and the difference of their means."""
    exits = [translation.exits for translation in model.translations]
    start, end = position_histograms(exits, blocks=model.blocks)
    difference, low, high = rounded_difference(sentences)
    return PositionModelRecord(
        run=model.run,
        policy=model.policy,
        average_exit=model.average_exit,
        blocks=model.blocks,
        start=[round(share, 3) for share in start],
        end=[round(share, 3) for share in end],
        difference=difference,
        low=low,
        high=high,
    )


def score_record(model: SampledModel, sentences: Sentences) -> ScoreModelRecord:
    """The histogram of figure 9, and the difference between low and high exits."""
    exits = [translation.exits for translation in model.translations]
    scores = [translation.scores for translation in model.translations]
    difference, low, high = rounded_difference(sentences)
    return ScoreModelRecord(
        run=model.run,
        policy=model.policy,
        average_exit=model.average_exit,
        blocks=model.blocks,
        bins=BINS,
        counts=joint_histogram(exits, scores, blocks=model.blocks).tolist(),
        difference=difference,
        low=low,
        high=high,
    )


def ends_of_sentences(translations: Sequence[Translation]) -> Sentences:
    """For each sentence the sum of exits and the number of tokens of its first tenth, then of its
    last; as in figure 8."""
    rows = []
    for translation in translations:
        exits, last = translation.exits, len(translation.exits) - 1
        start = [left for t, left in enumerate(exits) if 10 * t < last]
        end = [left for t, left in enumerate(exits) if 10 * t > 9 * last]
        rows.append([sum(start), len(start), sum(end), len(end)])
    return np.array(rows, dtype=np.float64)


def probabilities(translations: Sequence[Translation], blocks: int) -> Sentences:
    """For each sentence the sum of probabilities and the number of the words that leave low (in the
    first third of the blocks), then of those that leave high (in the upper half): exits up to 2 and
    from 4 of 6, as the paper looks at them."""
    rows = []
    for translation in translations:
        pairs = [(left, probability(score)) for left, score in zip(translation.exits, translation.scores, strict=True)]
        low = [p for left, p in pairs if left <= max(1, blocks // 3)]
        high = [p for left, p in pairs if 2 * left > blocks]
        rows.append([sum(low), len(low), sum(high), len(high)])
    return np.array(rows, dtype=np.float64)


def difference_of(sentences: Sentences) -> Estimate | None:
    """The mean of the first kind of words minus that of the second; None where there are none of a
    kind."""
    if not sentences[:, 1].sum() or not sentences[:, 3].sum():
        return None
    return ratio_estimate(sentences[:, 0], sentences[:, 1]) - ratio_estimate(sentences[:, 2], sentences[:, 3])


def rounded_difference(sentences: Sentences) -> tuple[float | None, float | None, float | None]:
    """The difference and its interval, as the records hold them."""
    difference = difference_of(sentences)
    if difference is None:
        return None, None, None
    low, high = difference.interval
    return round(difference.value, 4), round(low, 4), round(high, 4)


def position_differences(folder: StudyFolder) -> list[tuple[float, Estimate]]:
    """By how much words leave deeper at the start of sentences, with the average exit of each
    policy; what was found."""
    file = folder.positions_file
    if not has_words(folder, file):
        return []
    depths = [model.average_exit for model in read_record(file, PositionsRecord).models]
    return stored_differences(folder, file, "positions", depths)


def score_differences(folder: StudyFolder) -> list[tuple[float, Estimate]]:
    """By how much words that leave low are more probable, with the average exit of each policy;
    what was found."""
    file = folder.scores_file
    if not has_words(folder, file):
        return []
    depths = [model.average_exit for model in read_record(file, ScoresRecord).models]
    return stored_differences(folder, file, "scores", depths)


def has_words(folder: StudyFolder, file: Path) -> bool:
    """Whether words were looked at and what they showed is in `file`."""
    return file.exists() and folder.word_statistics.exists()


def stored_differences(
    folder: StudyFolder, file: Path, name: str, depths: Sequence[float]
) -> list[tuple[float, Estimate]]:
    """The differences of the models in `file`, which have these average exits, from the statistics
    under `name`."""
    tensors = load_tensors(folder.word_statistics)[0]
    if missing := [number for number in range(len(depths)) if f"{name}/{number}" not in tensors]:
        raise UsageError(
            f"{folder.word_statistics} has no statistics of model {missing[0] + 1} of {file}; measure again in a "
            "new folder"
        )
    found = [(depth, difference_of(tensors[f"{name}/{number}"].numpy())) for number, depth in enumerate(depths)]
    return [(depth, difference) for depth, difference in found if difference is not None]
