"""The race: adaptive depth against plain models of fixed depth, on the clock. All contestants of a
heat translate the same sentences in rounds that they share."""

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Int

from anydepth.bench.cells import Material, make_work, mean_words, translate
from anydepth.bench.contestants import CTRANSLATE2, PRECISIONS, Contestant, ContestantOutput
from anydepth.bench.field import BenchSettings, CTranslate2Entrant, Entrant, own_contestants, rivals, threads
from anydepth.clock.rounds import Clock, Turn, decoding_rates, interleave, rates
from anydepth.config.model_settings import ModelConfig
from anydepth.config.schema import Config
from anydepth.errors import UsageError
from anydepth.evaluation.significance import corpus_bleu
from anydepth.exits.policies import Policy
from anydepth.experiments.definition import Study
from anydepth.experiments.measuring import SPLITS, text_statistics
from anydepth.experiments.race_records import (
    ContestantKind,
    ContestantRecord,
    HeatRecord,
    LapRecord,
    Precision,
    SpreadRecord,
    heat_name,
)
from anydepth.experiments.records import FORMAT, Split, write_record
from anydepth.experiments.study_folder import StudyFolder
from anydepth.experiments.variants import PLAIN, RACE, Variant
from anydepth.inference.engines.choice import automatic_engine
from anydepth.inference.export.ctranslate2_folder import inexpressible
from anydepth.inference.translator import Translator
from anydepth.messages.say import Say
from anydepth.model.checkpoint import save_tensors
from anydepth.runs.operating_points import Judge, OperatingPoint, PointSet, load_points
from anydepth.search.decoding import GREEDY, DecodingOptions
from anydepth.text.prepared import PreparedData
from anydepth.tuning.timed_points import spread_out
from anydepth.vocabulary.lexical_table import TableSelection
from anydepth.vocabulary.names import FULL
from anydepth.vocabulary.selection import WordSelection

FAMILIES = ("confidence", "margin")  # that are tuned; neither needs a further training
JUDGE: Judge = "full-depth"  # references would choose among so many points by chance
BATCHES = (1, 32)
ROUNDS = 5
TIMED = 200  # sentences in a turn; BLEU is of the whole test set
MOST_VALID = 2000  # pairs of valid that everything is chosen on
THREADS = 1
Search = tuple[Policy, WordSelection | None]


@dataclass(frozen=True)
class Heat:
    """What the contestants of a race have in common: a precision and a beam. A wider beam than 1 takes
    several times as long, so only the runs of the first seed take part in it."""

    precision: Precision
    beam: int

    def runs(self, study: Study) -> list[Variant]:
        """The runs that take part."""
        return [variant for variant in race_runs(study) if variant.seed == 1 or self.beam == 1]

    @property
    def name(self) -> str:
        """The name of its files."""
        return heat_name(self.precision, self.beam)


@dataclass(frozen=True)
class Sight:
    """What a contestant says of a text: its translations, as lines, too, and what BLEU counts in each."""

    outputs: list[ContestantOutput]
    lines: list[str]
    statistics: Int[np.ndarray, "sentence 12"]

    @property
    def bleu(self) -> float:
        """The BLEU of the text."""
        return corpus_bleu(self.statistics[:, :10])


def heats(config: Config) -> list[Heat]:
    """Both precisions with a beam of 1, then with that of the settings."""
    precisions: tuple[Precision, ...] = ("fp32", "int8")
    assert precisions == PRECISIONS
    return [Heat(precision, beam) for beam in dict.fromkeys((1, config.decoding.beam)) for precision in precisions]


def race_runs(study: Study) -> list[Variant]:
    """The runs that take part, of all seeds."""
    return [variant for variant in study.variants() if variant.role == RACE]


def run_heat(study: Study, folder: StudyFolder, heat: Heat, *, say: Say, clock: Clock = time.perf_counter) -> None:
    """Writes the record of a heat and its sentences' statistics."""
    variants = {variant.run: variant for variant in heat.runs(study)}
    try:
        engine = automatic_engine(None, int8=heat.precision == "int8")
    except UsageError as error:
        say(f"left out: {error}")
        write_record(folder.heat_record(heat.name), heat_record(heat, remark=str(error)))
        return
    with threads(THREADS):
        translators = {run: Translator.load(folder.run(run)) for run in variants}
        texts = {split: material_of(study, split, next(iter(translators.values())), heat.beam) for split in SPLITS}
        with contestants_of(translators, bench_settings(heat, engine), say) as (contestants, readers):
            sights = [{split: look(each, texts[split]) for split in SPLITS} for each in readers]
            say(f"{heat.name}: {len(contestants)} contestants have translated both held-out sets")
            numbers = spread_out(texts["test"].sentences, TIMED)
            timed = replace(texts["test"], sentences=[texts["test"].sentences[number] for number in numbers])
            tokens = [sum(len(each["test"].outputs[number].exits) for number in numbers) for each in sights]
            turns = {batch: run_rounds(contestants, timed, batch, heat, clock, say) for batch in BATCHES}
        full = full_depths(contestants, sights)
        records = [
            contestant_record(
                contestant,
                variants[contestant.model_name],
                sights[place],
                full.get(contestant.model_name) if variants[contestant.model_name].is_raced_adaptively else None,
                [lap_record(batch, turns[batch][place], tokens[place], len(numbers)) for batch in BATCHES],
            )
            for place, contestant in enumerate(contestants)
        ]
    statistics = {
        record.key: torch.from_numpy(sight["test"].statistics.astype(np.int32))
        for record, sight in zip(records, sights, strict=True)
    }
    folder.statistics.mkdir(parents=True, exist_ok=True)
    save_tensors(folder.run_statistics(statistics_name(heat.name)), statistics)
    sizes = {split: len(text.sentences) for split, text in texts.items()}
    write_record(folder.heat_record(heat.name), heat_record(heat, engine, sizes, len(numbers), records))


def statistics_name(heat: str) -> str:
    """Where the statistics of a heat's sentences are, among those of the runs."""
    return f"race-{heat}"


def bench_settings(heat: Heat, engine: str) -> BenchSettings:
    """How a heat is run: CTranslate2 takes part where it is installed."""
    return BenchSettings(
        engines=(engine,),
        precisions=(heat.precision,),
        batches=BATCHES,
        beams=(heat.beam,),
        rounds=ROUNDS,
        threads=THREADS,
        against=(CTRANSLATE2,) if find_spec(CTRANSLATE2) is not None else (),
    )


def material_of(study: Study, split: Split, translator: Translator, beam: int) -> Material:
    """The pairs of a held-out set that have a source, as tokens and as references."""
    pairs = held_out_pairs(PreparedData.open(Path(study.data.folder)), split)
    limit = translator.model.config.max_length
    encoded = translator.source_tokenizer.encode_lines([source for source, _ in pairs])
    return Material(
        [ids[:limit] for ids in encoded],
        replace(GREEDY.resolved(translator.config), beam=beam),
        [reference for _, reference in pairs],
        translator.target_tokenizer.decode,
    )


def held_out_pairs(data: PreparedData, split: Split) -> list[tuple[str, str]]:
    """The pairs of a held-out set that have a source: all of test, and of a long valid some from all
    over it."""
    pairs = [pair for pair in zip(*data.references(split), strict=True) if pair[0].strip()]
    most = len(pairs) if split == "test" else min(MOST_VALID, len(pairs))
    return [pairs[number * len(pairs) // most] for number in range(most)]


@contextmanager
def contestants_of(
    translators: Mapping[str, Translator], settings: BenchSettings, say: Say
) -> Iterator[tuple[list[Contestant], list[Contestant]]]:
    """Every run with the words that its check chose: the adaptive ones at every exit and tuned point
    that is worth its time, the others at full depth; and by CTranslate2 all that it can run, at full
    depth. Then the same once more, ours with all cores, which say the same sooner."""
    entrants = [Entrant(run, translator, searches(translator, settings)) for run, translator in translators.items()]
    theirs_too = [each for each in entrants if is_expressible(each.translator.model.config)]
    with rivals([ctranslate2_entrant(each) for each in theirs_too], settings) as field:
        has_map = {each.name: isinstance(each.searches[0][1], TableSelection) for each in entrants}
        every = [each for group in field if not isinstance(group, Contestant) for each in group]
        theirs = [each for each in every if each.has_map == has_map[each.model_name]]
        ours, quicker = (
            [each for entrant in entrants for each in own_contestants(entrant, replace(settings, threads=count), say)]
            for count in (settings.threads, os.cpu_count() or 1)
        )
        yield [*ours, *theirs], [*quicker, *theirs]


def searches(translator: Translator, settings: BenchSettings) -> list[Search]:
    """The fixed exits of a run and, where it has several, its tuned points that decide anything and
    are worth their cost."""
    assert translator.run is not None
    exits = translator.model.config.classifier_exits

    def search(policy: str, vocabulary: str | None) -> Search:
        options = DecodingOptions(beam=max(settings.beams), vocabulary=vocabulary)
        return translator.policy(policy), translator.search_settings(options).words

    found = [search(f"fixed:{n}", None) for n in exits]
    words = translator.search_settings(DecodingOptions()).words
    sets = load_points(translator.run, blocks=translator.model.blocks) if len(exits) > 1 else []
    own = [each for each in sets if each.vocabulary == (FULL if words is None else words.name)]
    tuned = [point for points in own if is_tuned_for_race(points) for point in points.points]
    found += [search(point.policy, point.vocabulary) for point in worthwhile(tuned)]
    return list({(policy.name, words and words.name): (policy, words) for policy, words in found}.values())


def is_tuned_for_race(found: PointSet) -> bool:
    """Whether these points are compared: those of other judges have other scores."""
    return found.policy in FAMILIES and found.judge == JUDGE


def worthwhile(tuned: Sequence[OperatingPoint]) -> list[OperatingPoint]:
    """The points that decide anything, but those that a point of more BLEU costs less than."""

    def cost(point: OperatingPoint) -> float:
        return point.flops_share if point.time_share is None else point.time_share

    return [
        point
        for point in tuned
        if not point.policy.startswith("fixed:")
        and not any(other.bleu > point.bleu and cost(other) < cost(point) for other in tuned)
    ]


def is_expressible(config: ModelConfig) -> bool:
    """Whether CTranslate2 can run the whole model."""
    return inexpressible(config, exit=config.blocks) is None


def ctranslate2_entrant(entrant: Entrant) -> CTranslate2Entrant:
    """The model of a run for CTranslate2, with the table that its check chose from."""
    translator, words = entrant.translator, entrant.searches[0][1]
    tokenizers = translator.source_tokenizer, translator.target_tokenizer
    source, target = (tokenizer.pieces(range(tokenizer.size)) for tokenizer in tokenizers)
    table = words if isinstance(words, TableSelection) else None
    return CTranslate2Entrant(entrant.name, translator.model, source, target, table)


def look(contestant: Contestant, text: Material) -> Sight:
    """What the contestant says of a text, without the clock."""
    calls = contestant.calls(text.sentences, text.settings, batch=max(BATCHES))
    outputs, _ = translate(contestant, calls, len(text.sentences))
    assert text.detokenize is not None
    assert text.references is not None
    lines = [text.detokenize(output.tokens) for output in outputs]
    return Sight(outputs, lines, text_statistics(lines, [output.exits for output in outputs], text.references))


def agreement(own: Sight, full: Sight | None) -> float | None:
    """The BLEU of a contestant's translations against those of full depth, where there are any."""
    if full is None:
        return None
    statistics = text_statistics(own.lines, [output.exits for output in own.outputs], full.lines)
    return round(corpus_bleu(statistics[:, :10]), 4)


def full_depths(contestants: Sequence[Contestant], sights: Sequence[Mapping[Split, Sight]]) -> dict[str, Sight]:
    """What each model says of valid at full depth, by its name."""
    return {
        contestant.model_name: sight["valid"]
        for contestant, sight in zip(contestants, sights, strict=True)
        if contestant.policy_name.partition(" ")[0] == f"fixed:{contestant.shape.blocks}"
    }


def run_rounds(
    contestants: Sequence[Contestant], text: Material, batch: int, heat: Heat, clock: Clock, say: Say
) -> list[list[Turn]]:
    """The turns of all contestants with one batch size."""
    works = [make_work(each, text, batch) for each in contestants]
    where = f"{heat.name}, batch {batch}"
    return interleave(
        works, rounds=ROUNDS, clock=clock, tell=lambda number: say(f"{where}: round {number} of {ROUNDS}")
    )


def lap_record(batch: int, turns: Sequence[Turn], tokens: int, sentences: int) -> LapRecord:
    """What the clock showed, per sentence and per second."""
    decoding = decoding_rates(turns, tokens - sentences)
    return LapRecord(
        batch=batch,
        milliseconds=[round(1000 * turn.seconds / sentences, 6) for turn in turns],
        decoding_milliseconds=[round(1000 * turn.decoding_seconds / sentences, 6) for turn in turns],
        tokens_per_second=SpreadRecord.of(rates(turns, tokens)),
        decoding_tokens_per_second=None if decoding is None else SpreadRecord.of(decoding),
    )


def contestant_record(
    contestant: Contestant, variant: Variant, sights: Mapping[Split, Sight], full: Sight | None, laps: list[LapRecord]
) -> ContestantRecord:
    """What one contestant did; `full` is what its model says of valid at full depth, where it has other
    exits."""
    test = sights["test"]
    policy, words = contestant.policy_name.partition(" ")[0], mean_words(contestant, test.outputs)
    tokens, depths = test.statistics[:, 10:].sum(axis=0).tolist()
    return ContestantRecord(
        run=variant.run,
        variant=variant.name,
        seed=variant.seed,
        kind=kind_of(variant, policy),
        system=contestant.system,
        policy=policy,
        vocabulary=contestant.vocabulary,
        blocks=contestant.shape.blocks,
        valid_bleu=round(sights["valid"].bleu, 4),
        valid_agreement=agreement(sights["valid"], full),
        bleu=round(test.bleu, 4),
        average_exit=round(depths / max(tokens, 1), 4),
        words=None if words is None else round(words, 1),
        laps=laps,
    )


def kind_of(variant: Variant, policy: str) -> ContestantKind:
    """What a contestant is in the race."""
    if variant.is_raced_adaptively:
        return "fixed" if policy.startswith("fixed:") else "tuned"
    return "plain" if variant.name.startswith(PLAIN) else "deep encoder"


def heat_record(
    heat: Heat,
    engine: str | None = None,
    sizes: Mapping[Split, int] | None = None,
    timed: int = 0,
    contestants: Sequence[ContestantRecord] = (),
    remark: str = "",
) -> HeatRecord:
    """A heat, how it was run, and its contestants."""
    return HeatRecord(
        format=FORMAT,
        precision=heat.precision,
        beam=heat.beam,
        engine=engine,
        batches=list(BATCHES),
        rounds=ROUNDS,
        threads=THREADS,
        sentences=0 if sizes is None else sizes["test"],
        valid_sentences=0 if sizes is None else sizes["valid"],
        timed_sentences=timed,
        contestants=list(contestants),
        remark=remark,
    )
