"""The times of stored operating points, measured again on this machine."""

import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from anydepth.clock.rounds import Clock
from anydepth.errors import CorpusError, UsageError
from anydepth.inference.engines.choice import automatic_engine
from anydepth.inference.translator import Translator
from anydepth.messages.say import Say
from anydepth.runs.operating_points import PointSet, load_points, save_points
from anydepth.runs.run import Run, changing
from anydepth.text.corpus import read_pairs
from anydepth.tuning.decoded_points import TunedSearch
from anydepth.tuning.timed_points import PointTimer, spread_out
from anydepth.tuning.tune import TuneSettings


def time_run(
    folder: Path, valid: str | None, settings: TuneSettings, *, say: Say, clock: Clock = time.perf_counter
) -> list[PointSet]:
    """The stored points of the run at `folder` with times of this machine, stored with it.

    Part of PREFIX `valid` is translated, by default of the text that the points were tuned on; BLEU
    and exits stay as they are. Points of a precision that no engine here has are left alone.
    """
    with changing(folder):
        run = Run(folder)
        timed = []
        for bits in (32, 8):
            sets = [found for found in load_points(run) if found.bits == bits]
            try:
                if sets and bits == 8:
                    automatic_engine(run, int8=True, blocks=run.config.model.blocks)
            except UsageError as error:
                say(f"left out: the points of {', '.join(found.name for found in sets)} with 8-bit products ({error})")
                continue
            for alike in searched_alike(sets):
                timed += time_sets(run, alike, valid, settings, say=say, clock=clock)
        save_points(run, *timed)
        return timed


def searched_alike(sets: Sequence[PointSet]) -> list[list[PointSet]]:
    """The sets in groups of the same beam and length penalty, which are timed together."""
    groups: dict[tuple[int, float], list[PointSet]] = {}
    for found in sets:
        groups.setdefault((found.beam, found.length_penalty), []).append(found)
    return list(groups.values())


def time_sets(
    run: Run, sets: Sequence[PointSet], valid: str | None, settings: TuneSettings, *, say: Say, clock: Clock
) -> list[PointSet]:
    """The sets, which have one precision and one way of searching, with new times."""
    translator = Translator.load(run.folder, int8=sets[0].bits == 8)
    first = sets[0]
    search = replace(settings.decoding, beam=first.beam, length_penalty=first.length_penalty).resolved(
        translator.config
    )
    sentences = timed_sentences(translator, valid or first.valid, settings.timed)
    timer = PointTimer(translator.engine, sentences, search, settings.batch, settings.rounds, clock, say)
    searches = {
        (point.policy, point.vocabulary): TunedSearch(
            translator.policy(point.policy), translator.words(point.vocabulary)
        )
        for found in sets
        for point in found.points
    }
    shares = dict(zip(searches, timer.time_shares(list(searches.values())), strict=True))
    return [
        replace(
            found,
            points=tuple(replace(point, time_share=shares[point.policy, point.vocabulary]) for point in found.points),
            clock=timer.recipe,
        )
        for found in sets
    ]


def timed_sentences(translator: Translator, valid: str, count: int) -> list[list[int]]:
    """At most `count` source sentences of PREFIX `valid`, spread over the text."""
    assert translator.run is not None, "the run was loaded"
    note = translator.run.data_note()
    try:
        pairs = list(read_pairs(valid, note["source_lang"], note["target_lang"]))
    except CorpusError as error:
        raise CorpusError(f"{error}; name the text to time with --valid PREFIX") from error
    encoded = translator.source_tokenizer.encode_lines([source for source, _ in pairs if source.strip()])
    if not encoded:
        raise CorpusError(f"{valid} has no sentences to time; name another text with --valid PREFIX")
    limit = translator.model.config.max_length
    return [encoded[number][:limit] for number in spread_out(encoded, count)]
