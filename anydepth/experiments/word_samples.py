"""Looking at words: single sentences, positions and scores of one run at three depths (figures 6 to
9)."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from anydepth.errors import UsageError
from anydepth.evaluation.measure import average_exit
from anydepth.experiments.evidence import Figure, ratio_figure
from anydepth.experiments.measuring import tuned_points
from anydepth.experiments.plan import Places, Study, read_record, write_record
from anydepth.experiments.records import PositionsRecord, ScoresRecord
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


def look_at_words(study: Study, places: Places, run: str, *, say: Say) -> None:
    """Translates the test set at three depths of a run and writes what its words show."""
    translator = Translator.load(places.run(run))
    blocks = translator.model.blocks
    sources, references = PreparedData.open(Path(study.data)).references("test")
    positions, scores = [], []
    counted: dict[str, Tensor] = {}
    for number, policy in enumerate(chosen_policies(translator)):
        say(f"translating the test set with {policy}")
        translations = translator.translate(sources, policy=policy)
        about = {"run": run, "policy": policy, "average_exit": round(average_exit(translations), 4), "blocks": blocks}
        starts, likely = ends_of_sentences(translations), probabilities(translations, blocks)
        positions.append({**about, **position_shares(translations, blocks), **difference_json(starts)})
        scores.append({**about, "bins": BINS, "counts": score_counts(translations, blocks), **difference_json(likely)})
        counted |= {f"positions/{number}": torch.from_numpy(starts), f"scores/{number}": torch.from_numpy(likely)}
        if number == 0:
            shown = shown_sentences(translations, sources, references)
            write_record(
                places.records / "tokens.json", {"run": run, "policy": policy, "blocks": blocks, "samples": shown}
            )
    places.statistics.mkdir(parents=True, exist_ok=True)
    save_tensors(statistics_file(places), counted)
    write_record(places.records / "positions.json", {"models": positions})
    write_record(places.records / "scores.json", {"models": scores})


def chosen_policies(translator: Translator) -> list[str]:
    """The tuned points whose average exits are nearest to the three depths; each once."""
    points = tuned_points(translator, "geometric")
    wanted = [share * translator.model.blocks for share in DEPTHS]
    nearest = [min(points, key=lambda point: abs(point.average_exit - depth)).policy for depth in wanted]
    return list(dict.fromkeys(nearest))


def shown_sentences(
    translations: Sequence[Translation], sources: Sequence[str], references: Sequence[str]
) -> list[dict[str, Any]]:
    """The first sentences of the test set whose translations are neither very short nor very long;
    none is picked by hand."""
    low, high = SHOWN_LENGTHS
    fitting = [number for number, translation in enumerate(translations) if low <= len(translation.exits) <= high]
    return [
        {
            "source": sources[number],
            "reference": references[number],
            "tokens": translations[number].tokens,
            "exits": translations[number].exits,
            "scores": [round(probability(score), 4) for score in translations[number].scores],
        }
        for number in (fitting or range(len(translations)))[:SHOWN]
    ]


def position_shares(translations: Sequence[Translation], blocks: int) -> dict[str, list[float]]:
    """The distributions of figure 8, in percent."""
    start, end = position_histograms([translation.exits for translation in translations], blocks=blocks)
    return {"start": [round(share, 3) for share in start], "end": [round(share, 3) for share in end]}


def score_counts(translations: Sequence[Translation], blocks: int) -> list[list[int]]:
    """The histogram of figure 9."""
    exits, scores = ([getattr(translation, name) for translation in translations] for name in ("exits", "scores"))
    counts: list[list[int]] = joint_histogram(exits, scores, blocks=blocks).tolist()
    return counts


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


def difference_of(sentences: Sentences) -> Figure | None:
    """The mean of the first kind of words minus that of the second; None where there are none of a
    kind."""
    if not sentences[:, 1].sum() or not sentences[:, 3].sum():
        return None
    return ratio_figure(sentences[:, 0], sentences[:, 1]) - ratio_figure(sentences[:, 2], sentences[:, 3])


def difference_json(sentences: Sentences) -> dict[str, float | None]:
    """The difference with its interval, as the records hold it."""
    figure = difference_of(sentences)
    if figure is None:
        return {"difference": None, "low": None, "high": None}
    low, high = figure.interval
    return {"difference": round(figure.value, 4), "low": round(low, 4), "high": round(high, 4)}


def word_figures(places: Places, name: str) -> list[tuple[float, Figure]]:
    """The differences of "positions" or "scores" that were found, each with the average exit of its
    policy."""
    file = places.records / f"{name}.json"
    if not file.exists() or not statistics_file(places).exists():
        return []
    models = read_record(file, PositionsRecord if name == "positions" else ScoresRecord)["models"]
    tensors = load_tensors(statistics_file(places))[0]
    if missing := [number for number in range(len(models)) if f"{name}/{number}" not in tensors]:
        raise UsageError(
            f"{statistics_file(places)} has no statistics of model {missing[0] + 1} of {file}; measure again in a "
            "new folder"
        )
    found = [
        (model["average_exit"], difference_of(tensors[f"{name}/{number}"].numpy()))
        for number, model in enumerate(models)
    ]
    return [(depth, figure) for depth, figure in found if figure is not None]


def statistics_file(places: Places) -> Path:
    """Where the sums over each sentence's words are."""
    return places.statistics / "look-at-words.safetensors"
