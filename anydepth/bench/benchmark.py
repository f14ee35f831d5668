"""Benchmarks: a run on its test set, or a shape with random weights and forced exits, against
CTranslate2 at full depth."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from jaxtyping import Int
from torch import Tensor

from anydepth.bench.bench_recipe import DECODING_ALONE, BenchRecipe, versions
from anydepth.bench.cells import Material, Result, run_cell
from anydepth.bench.contestants import CTRANSLATE2, ForcedContestant, OwnContestant
from anydepth.bench.field import (
    BenchSettings,
    CTranslate2Entrant,
    Entrant,
    Field,
    engines,
    entrants,
    original_rivals,
    own_contestants,
    rival_model,
    rivals,
    threads,
)
from anydepth.bench.original_model import (
    TRANSFORMERS,
    OriginalModel,
    find_original,
    load_transformers,
    odd_for_conversion,
)
from anydepth.bench.shape import Sizes, drawn_exits, made_up_pieces, random_sentences, random_table, shaped_model
from anydepth.clock.machine import Machine, this_machine, timing_place
from anydepth.clock.rounds import Clock
from anydepth.config.loading import with_changes
from anydepth.config.schema import Config
from anydepth.errors import UsageError
from anydepth.evaluation.evaluate import EACH_EXIT, ChosenPolicy, wished_policies
from anydepth.exits.adaptive import AdaptiveTransformer
from anydepth.exits.halting import GeometricHalting
from anydepth.exits.policies import FixedExit, ForcedExits, Policy
from anydepth.files.checksums import known_hash
from anydepth.inference.engines.engine import Engine
from anydepth.inference.export.ctranslate2_folder import inexpressible, load_ctranslate2
from anydepth.inference.translator import Translator
from anydepth.messages.say import Say
from anydepth.runs.operating_points import PointSet, Wish, load_points
from anydepth.runs.run import Run
from anydepth.search.decoding import GREEDY
from anydepth.text.corpus import read_pairs
from anydepth.vocabulary.lexical_table import TableSelection

EACH_POINT = "tuned"  # stands for every operating point of the run


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
    check_packages(settings)
    run, translator, machine = Run(folder), Translator.load(folder), this_machine()
    note, original = run.data_note(), original_of(run, settings, say)
    wanted = chosen_policies(policies, translator, wish, settings)
    tell_of_tuning(wanted, wish, translator, settings, say)
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
        [reference for _, reference in pairs],
        tokenizer.decode,
    )
    recipe = make_recipe(settings, material, machine, run, test=test)
    taking_part = entrants(folder, translator, wanted, settings)
    is_converted = original is not None and takes_conversion(original, settings, say)
    if original is not None and (is_converted or TRANSFORMERS in settings.against):
        recipe = replace(recipe, original=str(original.folder))
    own_models = [] if is_converted else ctranslate2_entrants(taking_part, settings)
    with (
        threads(settings.threads),
        rivals(own_models, settings) as field,
        original_rivals(original, settings, is_converted=is_converted, say=say) as others,
    ):
        field += others
        for entrant in taking_part:
            field += own_contestants(entrant, settings, say)
        return Bench(recipe, run_cells(field, material, settings, say, clock))


def check_packages(settings: BenchSettings) -> None:
    """Refuses rivals that are not installed, before anything is loaded."""
    if CTRANSLATE2 in settings.against:
        load_ctranslate2()
    if TRANSFORMERS in settings.against or settings.original is not None:
        load_transformers()


def original_of(run: Run, settings: BenchSettings, say: Say) -> OriginalModel | None:
    """The folder that the run was adopted from, where rivals are to run it; None where CTranslate2
    takes models of ours."""
    is_needed = TRANSFORMERS in settings.against
    if not settings.against or (not is_needed and (settings.rival is not None or settings.beside)):
        return None
    return find_original(run, settings.original, is_needed=is_needed, say=say)


def takes_conversion(original: OriginalModel, settings: BenchSettings, say: Say) -> bool:
    """Whether CTranslate2 takes part with its own conversion of the folder: not where it is to take
    other runs, and neither with one that is known to be wrong nor without transformers, which
    converts it, unless the folder was named."""
    if CTRANSLATE2 not in settings.against or settings.rival is not None or settings.beside:
        return False
    odd = odd_for_conversion(original) or unconvertible(settings)
    if odd is None:
        return True
    if settings.original is None:
        say(f"CTranslate2 takes the run's own model in place of {original.folder}: {odd}")
        return False
    say(f"warning: CTranslate2's translations of {original.folder} may be wrong: {odd}")
    return True


def unconvertible(settings: BenchSettings) -> str | None:
    """Why the folder, which was not named, cannot be converted here, as a phrase; None if it can."""
    if settings.original is not None:
        return None
    try:
        load_transformers()
    except UsageError as error:
        return f"converting {error}"
    return None


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


def timed_elsewhere(found: PointSet, wish: Wish, translator: Translator, settings: BenchSettings) -> str:
    """How every cell of the benchmark differs from the search that a wish by time was measured
    with; empty where one does not."""
    if wish.time is None or found.clock is None:
        return ""
    here = replace(timing_place(translator.engine, GREEDY.resolved(translator.config)), threads=settings.threads)
    own, batches = found.clock.place, settings.batches
    nearest = own.batch_sentences if own.batch_sentences in batches else batches[0]
    return own.otherwise(replace(here, batch_sentences=nearest))


def chosen_policies(
    policies: Sequence[str], translator: Translator, wish: Wish | None, settings: BenchSettings
) -> list[ChosenPolicy]:
    """The policies that take part beside full depth, names written out that stand for several: each
    fixed exit, and each operating point of the run with its own words."""
    assert translator.run is not None
    found: list[ChosenPolicy] = []
    named = [name for name in policies if name not in (EACH_EXIT, EACH_POINT)]
    if EACH_EXIT in policies:
        exits = translator.model.config.classifier_exits
        found += [ChosenPolicy(f"fixed:{n}", settings.vocabulary) for n in exits]
    if named or not (wish is None or wish.is_empty):
        found += wished_policies(named, translator, wish, vocabulary=settings.vocabulary)
    if EACH_POINT in policies:
        sets = load_points(translator.run, blocks=translator.model.blocks)
        asked = settings.vocabulary
        found += [
            ChosenPolicy(point.policy, point.vocabulary, each)
            for each in sets
            if asked is None or asked == each.vocabulary
            for point in each.points
        ]
    return found


def ctranslate2_entrants(taking_part: Sequence[Entrant], settings: BenchSettings) -> list[CTranslate2Entrant]:
    """The models that CTranslate2 takes: those of all runs, or that of the rival."""
    own = taking_part[0].translator
    source, target = (
        tokenizer.pieces(range(tokenizer.size)) for tokenizer in (own.source_tokenizer, own.target_tokenizer)
    )
    selections = [words for _, words in taking_part[0].searches]
    table = next((words for words in selections if isinstance(words, TableSelection)), None)
    models = [(entrant.name, entrant.translator.model) for entrant in taking_part]
    if settings.rival is not None:
        models = [("", rival_model(own, settings).model)]
    return [CTranslate2Entrant(name, model, source, target, table) for name, model in models]


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
    from `shares`, each with all words and, where the sizes have one, with a table of words.

    The halting module has random weights, too: it is evaluated all the same, and ignored. `run` and
    `test` are where the shares are from. Where CTranslate2 cannot run the shape, it takes the one
    whose blocks attend to the states below them.
    """
    if settings.vocabulary is not None and run is None:
        raise UsageError("--vocabulary selects the words of a RUN, and a --shape alone has none; leave out one of them")
    if settings.rival is not None or settings.beside:
        option = "--beside" if settings.beside else "--rival"
        raise UsageError(f"{option} is a trained model, and a --shape has none to compare with; leave out one of them")
    if settings.original is not None or TRANSFORMERS in settings.against:
        option = "--against transformers" if settings.original is None else "--original"
        raise UsageError(f"{option} is for the model of a RUN, and a --shape has none; leave out one of them")
    check_packages(settings)
    count, machine = settings.sentences or 4 * max(settings.batches), this_machine()
    model = shaped_model(config, sizes, units=units, seed=settings.seed)
    table = drawn_exits(shares, sentences=count, length=sizes.output_length, seed=settings.seed)
    material = Material(
        random_sentences(sizes, count, seed=settings.seed),
        replace(GREEDY.resolved(config.decoding), exact_length=sizes.output_length),
    )
    recipe = replace(
        make_recipe(settings, material, machine, run, test=test),
        shape=name,
        source_length=sizes.source_length,
        output_length=sizes.output_length,
        exit_shares=list(shares),
    )
    pieces, words = made_up_pieces(sizes.vocab), random_table(sizes, seed=settings.seed)
    theirs = CTranslate2Entrant("", expressible_shape(model, config, sizes, settings, say), pieces, pieces, words)
    with threads(settings.threads), rivals([theirs], settings) as field:
        for system, precision, engine in engines(model, settings, None, say):
            full = FixedExit(model.blocks, model.blocks)
            for chosen in dict.fromkeys((None, words)):
                field += [
                    OwnContestant(system, engine, precision, full, True, words=chosen),
                    forced(system, engine, precision, model, table, chosen),
                ]
        return Bench(recipe, run_cells(field, material, settings, say, clock))


def expressible_shape(
    model: AdaptiveTransformer, config: Config, sizes: Sizes, settings: BenchSettings, say: Say
) -> AdaptiveTransformer:
    """The model that CTranslate2 takes: that of the shape, or one of the same sizes whose blocks attend
    to the states below them."""
    if inexpressible(config.model, exit=model.blocks) is None:
        return model
    if CTRANSLATE2 in settings.against:
        say('CTranslate2 takes the shape with model.attended_states = "below", since its format has no other')
    plain = with_changes(config, ['model.attended_states="below"', "model.exit_adapter=0"])
    return shaped_model(plain, sizes, units=0, seed=settings.seed)


def forced(
    system: str,
    engine: Engine,
    precision: str,
    model: AdaptiveTransformer,
    table: Int[Tensor, "sentence time"],
    words: TableSelection | None = None,
) -> ForcedContestant:
    """The engine with the exits of `table` and the model's halting module, which decides
    nothing."""
    assert isinstance(model.halting, GeometricHalting)
    policy: Policy = ForcedExits(table, model.halting, model.blocks)
    return ForcedContestant(
        system, engine, precision, policy, is_full_depth=False, table=table, halting=model.halting, words=words
    )


def exit_shares(
    folder: Path, test: str, policy: str | None, wish: Wish, settings: BenchSettings, *, say: Say
) -> list[float]:
    """How often each exit is taken when the run at `folder` translates the test set greedily with a
    policy, or with the wished one."""
    translator, note = Translator.load(folder), Run(folder).data_note()
    named = [] if policy is None else [policy]
    wanted = wished_policies(named, translator, wish, vocabulary=settings.vocabulary)[-1]
    lines = [source for source, _ in read_pairs(test, note["source_lang"], note["target_lang"])]
    chosen, decoding = translator.policy(wanted.name), replace(GREEDY, vocabulary=wanted.vocabulary)
    say(f"translating {len(lines):,} sentences with {chosen.name}, to see where tokens leave")
    with threads(settings.threads):
        exits = [
            left for translation in translator.translate_lines(lines, chosen, decoding) for left in translation.exits
        ]
    return [exits.count(n) / len(exits) for n in range(1, translator.model.blocks + 1)]


def run_cells(field: Field, material: Material, settings: BenchSettings, say: Say, clock: Clock) -> list[Result]:
    """The figures of all contestants for every beam and batch size."""
    results = []
    for beam in settings.beams:
        for batch in settings.batches:
            own = replace(material, settings=replace(material.settings, beam=beam))
            results += run_cell(
                field,
                own,
                batch=batch,
                rounds=settings.rounds,
                clock=clock,
                say=say,
                has_phases=settings.has_phases,
            )
    return results


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
        beside=[f"{folder} {known_hash(Run(folder).weights_file)[:12]}" for folder in settings.beside],
        test=test,
    )
