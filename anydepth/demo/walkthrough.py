"""The demo: the whole way from nothing to a model that chooses its depth, and what that is worth,
on the built-in corpus."""

import sys
from collections.abc import Sequence
from pathlib import Path

import torch
from rich.console import Console

from anydepth.bench.bench_table import bench_json, bench_table, engines_table
from anydepth.bench.benchmark import EACH_POINT, Bench, bench_run
from anydepth.bench.contestants import PRECISIONS
from anydepth.bench.field import BenchSettings
from anydepth.config.loading import load_config
from anydepth.config.shipped import shipped_file
from anydepth.demo.corpus import write_corpus
from anydepth.errors import UsageError
from anydepth.evaluation.evaluate import EACH_EXIT, Evaluation, evaluate_run
from anydepth.evaluation.evaluation_table import evaluation_json, evaluation_table
from anydepth.evaluation.vocabulary_check import CheckSettings, find_vocabulary, vocabulary_table
from anydepth.figures.curves import read_points
from anydepth.figures.race import plot_race
from anydepth.figures.sentence import plot_tokens
from anydepth.figures.style import save_figure
from anydepth.figures.tradeoff import plot_tradeoff
from anydepth.files.atomic import write_text
from anydepth.inference.engines.choice import automatic_engine
from anydepth.inference.show import exit_legend, shown_exits
from anydepth.inference.translator import Translator
from anydepth.messages.say import Say
from anydepth.runs.operating_points import Wish, load_points
from anydepth.runs.run import Run
from anydepth.runs.word_selections import TableSettings, learn_table
from anydepth.text.prepare import PrepareSettings, prepare
from anydepth.training.start import continued_config, continued_run, new_run, train_to_the_end
from anydepth.tuning.tune import TuneSettings, tune_run
from anydepth.vocabulary.names import FULL, TABLE

VOCAB_SIZE = 2000
SAMPLES = (50, 66, 80)
BUDGETS = (1.5, 2.0, 3.0)  # average exits
CLOCK_BUDGET, BATCH, ROUNDS = 2.0, 64, 3  # of the table of engines
RACE_BATCHES, RACE_SENTENCES = (1, 32), 300  # of the curve
TOLERANCE = 0.3  # BLEU that choosing among fewer words may cost; 500 sentences tell no smaller loss from none
TUNED = ("confidence", "geometric")
TUNING = TuneSettings(objective="flops", candidates=3000)  # not the clock: the same points on every machine


def run_demo(to: Path, config: Path | None, exits_config: Path | None, *, say: Say) -> None:
    """Generates, prepares, trains twice, tunes, measures and draws under `to`; a stage that was
    finished before is not done again."""
    first, second = config or shipped_file("demo"), exits_config or shipped_file("demo_exits")
    text, data, aligned, run = to / "corpus", to / "data", Run(to / "model"), Run(to / "exits")
    make_text(text, say)
    make_data(text, data, say)
    say(f"\n[3/9] training a model with an exit after every decoder block in {aligned.folder}")
    if aligned.config_file.exists() and aligned.config != load_config(first):
        raise UsageError(
            f"{aligned.folder} was made with other settings than {first}; remove it or choose another --to"
        )
    train_to_the_end(aligned, lambda: new_run(aligned.folder, first, data, [], overwrite=False), say)
    say(f"\n[4/9] teaching it where to stop, from {aligned.folder} to {run.folder}")
    if run.config_file.exists() and run.config != continued_config(aligned, second, []):
        raise UsageError(f"{run.folder} was made with other settings than {second}; remove it or choose another --to")
    train_to_the_end(run, lambda: continued_run(run.folder, aligned.folder, second, [], overwrite=False), say)
    choose_words(run, text, say)
    tune(run, text, say)
    say("\n[7/9] measuring full depth, fixed exits and tuned policies on the test set")
    evaluation = measure_policies(run, text, say)
    write_text(to / "evaluation.json", evaluation_json(evaluation) + "\n")
    print(f"\n{evaluation_table(evaluation)}", flush=True)
    say("\n[8/9] the clock: full depth and a tuned policy of each kind on each engine, in turn")
    print(f"\n{engines_table(measure_engines(run, text, say))}", flush=True)
    race = measure_race(run, text, say)
    write_text(to / "race.json", bench_json(race) + "\n")
    print(f"\n{bench_table(race)}", flush=True)
    say("\n[9/9] three sentences, each word in the colour of its exit, and the curves")
    show_samples(run, text, to)
    save_figure(plot_tradeoff(read_points([to / "evaluation.json"])), to / "tradeoff.png")
    save_figure(plot_race(race.results), to / "clock.png")
    say(f"\npictures: {to / 'clock.png'}, {to / 'tradeoff.png'} and {to / 'tokens.png'}")
    command = sys.argv[0] if Path(sys.argv[0]).name == "anydepth" else "anydepth"  # as it was started
    say(
        f"everything is in {to}; try: echo 'Anna kommt um halb drei an.' | {command} translate {run.folder} "
        "--average-exit 2 --show-exits"
    )


def make_text(folder: Path, say: Say) -> None:
    """The built-in corpus as text files."""
    say(f"[1/9] generating the German-English corpus in {folder}")
    for split, pairs in write_corpus(folder).items():
        say(f"{split}: {pairs:,} pairs")


def make_data(text: Path, folder: Path, say: Say) -> None:
    """Vocabulary and token files."""
    say(f"\n[2/9] preparing token files in {folder}")
    if (folder / "manifest.json").exists():
        say("prepared already")
        return
    train, valid, test = (str(text / split) for split in ("train", "valid", "test"))
    settings = PrepareSettings(
        source_lang="de", target_lang="en", train=train, valid=valid, test=test, vocab_size=VOCAB_SIZE
    )
    prepare(settings, folder, say=say)


def choose_words(run: Run, text: Path, say: Say) -> None:
    """The words that each sentence may use, by a lexical table that keeps the BLEU of all words."""
    say(f"\n[5/9] learning which words a sentence may need, stored in {run.table_file}")
    if run.vocabulary_file.exists():
        say("learned already")
        return
    settings = CheckSettings.of_kind(TABLE, tolerance=TOLERANCE)
    found = find_vocabulary(
        run.folder, str(text / "valid"), settings, lambda of: learn_table(of, TableSettings(), say=say), say=say
    )
    print(f"\n{vocabulary_table(found)}", flush=True)


def tune(run: Run, text: Path, say: Say) -> None:
    """Operating points of the training-free and of the learned policy."""
    say(f"\n[6/9] finding thresholds for every budget, stored in {run.points_file}")
    words = Translator.load(run.folder).words(None)
    wanted = (FULL if words is None else words.name, TUNING.objective)
    sets = load_points(run) if run.points_file.exists() else []
    known = {found.policy for found in sets if (found.vocabulary, found.objective) == wanted}
    for policy in TUNED:
        if policy in known:
            say(f"{policy} is tuned already")
        else:
            tune_run(run.folder, str(text / "valid"), policy, TUNING, say=say)


def measure_policies(run: Run, text: Path, say: Say) -> Evaluation:
    """Fixed exits up to full depth, uniform exits, and the tuned policies at the budgets."""
    return evaluate_run(run.folder, str(text / "test"), [EACH_EXIT, *tuned_policies(run, BUDGETS)], say=say)


def tuned_policies(run: Run, budgets: Sequence[float]) -> list[str]:
    """The tuned policies at the budgets; full depth, which is a point too, is not among them."""
    translator = Translator.load(run.folder)
    tuned = [
        translator.operating_point(Wish(average_exit=budget), policy=policy)[0].policy
        for policy in TUNED
        for budget in budgets
    ]
    return [policy for policy in dict.fromkeys(tuned) if not policy.startswith("fixed:")]


def measure_engines(run: Run, text: Path, say: Say) -> Bench:
    """Full depth and one tuned policy of each kind with the plain step and, where there is a faster
    engine, with that one in both precisions."""
    fastest = automatic_engine(None, int8=False)
    settings = BenchSettings(
        engines=tuple(dict.fromkeys(("torch", fastest))),
        precisions=PRECISIONS[:1] if fastest == "torch" else PRECISIONS,
        batches=(BATCH,),
        beams=(run.config.decoding.beam,),
        rounds=ROUNDS,
        threads=torch.get_num_threads(),
    )
    return bench_run(run.folder, str(text / "test"), tuned_policies(run, (CLOCK_BUDGET,)), settings, say=say)


def measure_race(run: Run, text: Path, say: Say) -> Bench:
    """Every fixed exit and every tuned point on the fastest engine, for one sentence at a time and
    for many."""
    settings = BenchSettings(
        engines=(automatic_engine(None, int8=False),),
        precisions=PRECISIONS[:1],
        batches=RACE_BATCHES,
        beams=(run.config.decoding.beam,),
        rounds=ROUNDS,
        threads=1,
        sentences=RACE_SENTENCES,
    )
    return bench_run(run.folder, str(text / "test"), [EACH_EXIT, EACH_POINT], settings, say=say)


def show_samples(run: Run, text: Path, to: Path) -> None:
    """Prints sentences of the test set, their translations with the exit of each word, and the
    references; draws the last one."""
    translator = Translator.load(run.folder)
    blocks, policy = translator.model.blocks, translator.tuned_policy(average_exit=2.0, policy="geometric")
    sources, references = (
        (text / f"test.{language}").read_text(encoding="utf-8").split("\n") for language in ("de", "en")
    )
    translations = translator.translate([sources[number] for number in SAMPLES], policy=policy)
    console = Console(highlight=False, soft_wrap=True)
    for number, translation in zip(SAMPLES, translations, strict=True):
        console.print(f"\n  source     {sources[number]}", markup=False)
        console.print("  exits      ", shown_exits(translation, blocks=blocks), sep="")
        console.print(f"  reference  {references[number]}", markup=False)
    console.print("\n  ", exit_legend(translations, blocks=blocks), sep="")
    save_figure(plot_tokens(translations[-1], blocks=blocks, source=sources[SAMPLES[-1]]), to / "tokens.png")
