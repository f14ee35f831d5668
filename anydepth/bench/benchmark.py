"""Benchmarks: a run on its test set, or a shape with random weights and forced exits, against
CTranslate2 at full depth."""

import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from jaxtyping import Int
from torch import Tensor

from anydepth.bench.bench_recipe import DECODING_ALONE, BenchRecipe, versions
from anydepth.bench.cells import Material, Result, run_cell
from anydepth.bench.contestants import (
    PRECISIONS,
    Contestant,
    CTranslate2Contestant,
    ForcedContestant,
    OwnContestant,
    load_rivals,
)
from anydepth.bench.shape import Sizes, drawn_exits, made_up_pieces, random_sentences, shaped_model
from anydepth.clock.machine import Machine, this_machine, timing_place
from anydepth.clock.rounds import Clock
from anydepth.config.schema import Config
from anydepth.errors import UsageError
from anydepth.evaluation.evaluate import ChosenPolicy, wished_names, wished_policies
from anydepth.exits.adaptive import AdaptiveTransformer
from anydepth.exits.flops import DecoderShape
from anydepth.exits.halting import GeometricHalting
from anydepth.exits.policies import FixedExit, ForcedExits, Policy
from anydepth.files.checksums import known_hash
from anydepth.inference.engines.choice import check_engine, make_engine
from anydepth.inference.engines.engine import Engine
from anydepth.inference.export.ctranslate2_folder import load_ctranslate2, write_checksums, write_ctranslate2
from anydepth.inference.translator import Translator
from anydepth.messages.say import Say
from anydepth.runs.models import load_model
from anydepth.runs.operating_points import PointSet, Wish
from anydepth.runs.run import Run
from anydepth.search.decoding import GREEDY
from anydepth.text.corpus import read_pairs
from anydepth.vocabulary.selection import WordSelection

Field = list[Contestant | Sequence[CTranslate2Contestant]]


@dataclass(frozen=True, kw_only=True)
class BenchSettings:
    """Who takes part in a benchmark, and how it is run."""

    engines: tuple[str, ...] = ("torch",)
    precisions: tuple[str, ...] = PRECISIONS
    batches: tuple[int, ...] = (1, 8, 32)
    beams: tuple[int, ...] = (1, 5)
    rounds: int = 5
    threads: int = 1
    sentences: int | None = None
    seed: int = 1
    against: str | None = None
    rival: Path | None = None  # the run whose model CTranslate2 takes, if not the same

    def __post_init__(self) -> None:
        for engine in self.engines:
            check_engine(engine)
        if self.against not in (None, "ctranslate2"):
            raise UsageError(
                f"--against {self.against}: ctranslate2 is all that a benchmark compares with; write --against "
                "ctranslate2"
            )
        if self.rival is not None and self.against is None:
            raise UsageError("--rival names the model that CTranslate2 takes; write --against ctranslate2, too")
        named = {"--batch": self.batches, "--beam": self.beams}
        counts = {
            "--rounds": self.rounds,
            "--threads": self.threads,
            "--sentences": 1 if self.sentences is None else self.sentences,
        }
        for name, value in [*((name, each) for name, values in named.items() for each in values), *counts.items()]:
            if value < 1:
                raise UsageError(f"{name} {value} leaves nothing to measure; set it to 1 or more")


@dataclass(frozen=True)
class Bench:
    """The figures of all contestants in all cells, with their recipe."""

    recipe: BenchRecipe
    results: list[Result]


def bench_run(
    folder: Path,
    test: str,
    policies: Sequence[str],
    settings: BenchSettings,
    *,
    wish: Wish | None = None,
    say: Say,
    clock: Clock = time.perf_counter,
) -> Bench:
    """The run at `folder` on the test set PREFIX `test`: full depth, and each of `policies`, with
    every engine and precision."""
    if settings.against:
        load_ctranslate2()
    run, translator, machine = Run(folder), Translator.load(folder), this_machine()
    note = run.data_note()
    wanted = wished_policies(policies, translator, wish) if policies or (wish is not None and not wish.is_empty) else []
    full = (translator.policy(None), None)
    chosen = [full, *((translator.policy(each.name), tuned_words(translator, each)) for each in wanted)]
    tell_of_tuning(wanted, wish, translator, settings, say)
    distinct = list({(policy.name, words and words.name): (policy, words) for policy, words in chosen}.values())
    pairs = [pair for pair in read_pairs(test, note["source_lang"], note["target_lang"]) if pair[0].strip()][
        : settings.sentences
    ]
    if not pairs:
        raise UsageError(f"{test} has no sentence to translate; every source line is empty")
    limit, tokenizer = translator.model.config.max_length, translator.target_tokenizer
    encoded = translator.source_tokenizer.encode_lines([source for source, _ in pairs])
    material = Material(
        [ids[:limit] for ids in encoded],
        GREEDY.resolved(translator.config),
        decoder_shape(translator.model),
        [reference for _, reference in pairs],
        tokenizer.decode,
    )
    recipe = make_recipe(settings, material, machine, run, test=test)
    source_pieces, target_pieces = (each.pieces(range(each.size)) for each in (translator.source_tokenizer, tokenizer))
    with (
        threads(settings.threads),
        rivals(rival_model(translator, settings), source_pieces, target_pieces, settings) as field,
    ):
        for system, precision, engine in engines(translator.model, settings, run, say):
            field += [
                OwnContestant(system, engine, precision, policy, policy is distinct[0][0], words=words)
                for policy, words in distinct
            ]
        return Bench(recipe, run_cells(field, material, settings, say, clock))


def tell_of_tuning(
    wanted: Sequence[ChosenPolicy], wish: Wish | None, translator: Translator, settings: BenchSettings, say: Say
) -> None:
    """Says which policies were tuned, or timed, otherwise than they are searched with here."""
    for each in wanted:
        if each.found is None:
            continue
        if beams := [str(beam) for beam in settings.beams if beam != each.found.beam]:
            say(
                f"warning: {each.name} was tuned with beam {each.found.beam}; the BLEU and exits of beam "
                f"{', '.join(beams)} may be others"
            )
        if wish is not None and (clocked := timed_elsewhere(each.found, wish, translator, settings)):
            say(f"warning: the time of {each.name} was measured otherwise than here: {clocked}")


def tuned_words(translator: Translator, chosen: ChosenPolicy) -> WordSelection | None:
    """The words that a policy was tuned with; all of them where no wish chose it."""
    return None if chosen.found is None else translator.words(chosen.vocabulary)


def timed_elsewhere(found: PointSet, wish: Wish, translator: Translator, settings: BenchSettings) -> str:
    """How every cell of the benchmark differs from the search that a wish by time was measured
    with; empty where one does not."""
    if wish.time is None or found.clock is None:
        return ""
    here = replace(timing_place(translator.engine, GREEDY.resolved(translator.config)), threads=settings.threads)
    own, batches = found.clock.place, settings.batches
    nearest = own.batch_sentences if own.batch_sentences in batches else batches[0]
    return own.otherwise(replace(here, batch_sentences=nearest))


def rival_model(translator: Translator, settings: BenchSettings) -> AdaptiveTransformer:
    """The model that CTranslate2 takes: the translator's own, or that of another run with the same
    vocabulary."""
    if settings.rival is None:
        return translator.model
    rival = Run(settings.rival)
    own, other = (
        [tokenizer.pieces(range(tokenizer.size)) for tokenizer in tokenizers]
        for tokenizers in ((translator.source_tokenizer, translator.target_tokenizer), rival.tokenizers())
    )
    if own != other:
        raise UsageError(
            f"--rival {settings.rival} has another vocabulary; prepare its data with --tokenizer-from, and train "
            "it again"
        )
    return load_model(rival)


def bench_shape(
    config: Config,
    name: str,
    sizes: Sizes,
    shares: Sequence[float],
    settings: BenchSettings,
    *,
    units: int,
    run: Run | None = None,
    test: str | None = None,
    say: Say,
    clock: Clock = time.perf_counter,
) -> Bench:
    """A model of the shape of `config` with random weights: full depth, and exits forced to a draw
    from `shares`.

    The halting module has random weights, too: it is evaluated all the same, and ignored. `run` and
    `test` are where the shares are from.
    """
    if settings.rival is not None:
        raise UsageError("--rival is a trained model, and a --shape has none to compare with; leave out one of them")
    if settings.against:
        load_ctranslate2()
    count, machine = settings.sentences or 4 * max(settings.batches), this_machine()
    model = shaped_model(config, sizes, units=units, seed=settings.seed)
    table = drawn_exits(shares, sentences=count, length=sizes.output_length, seed=settings.seed)
    material = Material(
        random_sentences(sizes, count, seed=settings.seed),
        replace(GREEDY.resolved(config.decoding), exact_length=sizes.output_length),
        decoder_shape(model),
    )
    recipe = replace(
        make_recipe(settings, material, machine, run, test=test),
        shape=name,
        source_length=sizes.source_length,
        output_length=sizes.output_length,
        exit_shares=list(shares),
    )
    pieces = made_up_pieces(sizes.vocab)
    with threads(settings.threads), rivals(model, pieces, pieces, settings) as field:
        for system, precision, engine in engines(model, settings, None, say):
            full = FixedExit(model.blocks, model.blocks)
            field += [
                OwnContestant(system, engine, precision, full, True),
                forced(system, engine, precision, model, table),
            ]
        return Bench(recipe, run_cells(field, material, settings, say, clock))


def forced(
    system: str, engine: Engine, precision: str, model: AdaptiveTransformer, table: Int[Tensor, "sentence time"]
) -> ForcedContestant:
    """The engine with the exits of `table` and the model's halting module, which decides
    nothing."""
    assert isinstance(model.halting, GeometricHalting)
    policy: Policy = ForcedExits(table, model.halting, model.blocks)
    return ForcedContestant(system, engine, precision, policy, is_full_depth=False, table=table, halting=model.halting)


def exit_shares(
    folder: Path, test: str, policy: str | None, wish: Wish, settings: BenchSettings, *, say: Say
) -> list[float]:
    """How often each exit is taken when the run at `folder` translates the test set greedily with a
    policy, or with the wished one."""
    translator, note = Translator.load(folder), Run(folder).data_note()
    names = wished_names([] if policy is None else [policy], translator, wish)
    lines = [source for source, _ in read_pairs(test, note["source_lang"], note["target_lang"])]
    chosen = translator.policy(names[-1])
    say(f"translating {len(lines):,} sentences with {chosen.name}, to see where tokens leave")
    with threads(settings.threads):
        exits = [
            left for translation in translator.translate_lines(lines, chosen, GREEDY) for left in translation.exits
        ]
    return [exits.count(n) / len(exits) for n in range(1, translator.model.blocks + 1)]


def run_cells(field: Field, material: Material, settings: BenchSettings, say: Say, clock: Clock) -> list[Result]:
    """The figures of all contestants for every beam and batch size."""
    results = []
    for beam in settings.beams:
        for batch in settings.batches:
            own = replace(material, settings=replace(material.settings, beam=beam))
            results += run_cell(field, own, batch=batch, rounds=settings.rounds, clock=clock, say=say)
    return results


def engines(
    model: AdaptiveTransformer, settings: BenchSettings, run: Run | None, say: Say
) -> Iterator[tuple[str, str, Engine]]:
    """Every engine in every precision that it has; one that lacks a precision is reported, or
    refused if none was left."""
    found = 0
    refusals = []
    for precision in settings.precisions:
        for name in settings.engines:
            try:
                engine = make_engine(name, model, int8=precision == "int8", threads=settings.threads, run=run)
            except UsageError as error:
                refusals.append(error)
                continue
            found += 1
            yield name, precision, engine
    if not found:
        raise refusals[0]
    for refusal in refusals:
        say(f"left out: {refusal}")


@contextmanager
def rivals(
    model: AdaptiveTransformer, source_pieces: Sequence[str], target_pieces: Sequence[str], settings: BenchSettings
) -> Iterator[Field]:
    """The contestants to compare with, if any were asked for: CTranslate2 at full depth in every
    precision, from files that are removed."""
    if not settings.against:
        yield []
        return
    field: Field = []
    with tempfile.TemporaryDirectory() as temporary:
        for precision in settings.precisions:
            folder = Path(temporary) / precision
            folder.mkdir()
            write_ctranslate2(
                model,
                source_pieces,
                target_pieces,
                folder,
                exit=model.blocks,
                quantization="int8" if precision == "int8" else None,
            )
            write_checksums(folder, weights=None)
            field.append(
                load_rivals(
                    folder,
                    precision=precision,
                    blocks=model.blocks,
                    source_pieces=source_pieces,
                    target_pieces=target_pieces,
                    max_length=model.config.max_length,
                    threads=settings.threads,
                )
            )
        yield field


@contextmanager
def threads(count: int) -> Iterator[None]:
    """Torch with so many threads, and afterwards with as many as before."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def decoder_shape(model: AdaptiveTransformer) -> DecoderShape:
    """The sizes that decide the decoder's cost."""
    return DecoderShape.of(model.config, model.target_embedding.num_embeddings)


def make_recipe(
    settings: BenchSettings, material: Material, machine: Machine, run: Run | None, *, test: str | None
) -> BenchRecipe:
    """The recipe for figures that are measured now, in this process."""
    return BenchRecipe(
        machine=machine,
        versions=versions(),
        threads=settings.threads,
        rounds=settings.rounds,
        seed=settings.seed,
        sentences=len(material.sentences),
        beams=list(settings.beams),
        batches=list(settings.batches),
        length_penalty=material.settings.length_penalty,
        run=None if run is None else str(run.folder),
        weights=None if run is None else known_hash(run.weights_file)[:12],
        decoding_alone=DECODING_ALONE,
        rival=None
        if settings.rival is None
        else f"{settings.rival} {known_hash(Run(settings.rival).weights_file)[:12]}",
        test=test,
    )
