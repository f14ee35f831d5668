"""The demo: the whole way from nothing to a table of what each exit is worth, on the built-in corpus."""

from collections.abc import Callable
from pathlib import Path

import anydepth
from anydepth.atomic import write_text
from anydepth.config import load_config
from anydepth.errors import UsageError
from anydepth.evaluation.evaluate import EACH_EXIT, evaluate_run
from anydepth.evaluation.measure import validation_scorer
from anydepth.evaluation.table import evaluation_json, evaluation_table
from anydepth.inference.translator import Translator, word_exits
from anydepth.model.run import Run
from anydepth.text.demo.corpus import write_corpus
from anydepth.text.prepare import PrepareSettings, prepare
from anydepth.training.start import new_run, resumed_run, train_run

VOCAB_SIZE = 2000
SAMPLES = (50, 66, 80)
Say = Callable[[str], None]


def run_demo(to: Path, config: Path | None, *, say: Say) -> None:
    """Generates, prepares, trains, evaluates and translates under `to`; a stage that was finished before is not done again."""
    config = config or Path(anydepth.__file__).parent.parent / "configs" / "demo.toml"
    if not config.exists():
        raise UsageError(f"there is no {config}; run the demo from a clone of the repository, or name a configuration with --config")
    text, data, run = to / "corpus", to / "data", Run(to / "model")
    make_text(text, say)
    make_data(text, data, say)
    make_model(run, config, data, say)
    say("\n[4/5] measuring every exit on the test set")
    evaluation = evaluate_run(run.folder, str(text / "test"), [EACH_EXIT], say=say)
    write_text(to / "evaluation.json", evaluation_json(evaluation) + "\n")
    print(f"\n{evaluation_table(evaluation)}", flush=True)
    say("\n[5/5] three sentences with a random exit for each word, written behind it")
    show_samples(run.folder, text, say)
    say(f"\neverything is in {to}; try: echo 'Anna kommt um halb drei an.' | anydepth translate {run.folder} --policy fixed:2")


def make_text(folder: Path, say: Say) -> None:
    """The built-in corpus as text files."""
    say(f"[1/5] generating the German-English corpus in {folder}")
    for split, pairs in write_corpus(folder).items():
        say(f"{split}: {pairs:,} pairs")


def make_data(text: Path, folder: Path, say: Say) -> None:
    """Vocabulary and token files."""
    say(f"\n[2/5] preparing token files in {folder}")
    if (folder / "manifest.json").exists():
        say("prepared already")
        return
    train, valid, test = (str(text / split) for split in ("train", "valid", "test"))
    prepare(PrepareSettings("de", "en", train, valid, test, vocab_size=VOCAB_SIZE), folder, report=say)


def make_model(run: Run, config: Path, data: Path, say: Say) -> None:
    """The trained model; training that was interrupted goes on."""
    say(f"\n[3/5] training a model with an exit after every decoder block in {run.folder}")
    if run.config_file.exists() and run.config != load_config(config):
        raise UsageError(f"{run.folder} was made with other settings than {config}; remove it or choose another --to")
    if run.weights_file.exists():
        say(f"trained already; to train again remove {run.folder}")
    elif run.config_file.exists():
        train_run(run.folder, lambda: resumed_run(run.folder, []), validation_scorer)
    else:
        train_run(run.folder, lambda: new_run(run.folder, config, data, [], overwrite=False), validation_scorer)


def show_samples(folder: Path, text: Path, say: Say) -> None:
    """Prints sentences of the test set, their translations with the exit of each word, and the references."""
    translator = Translator.load(folder)
    sources, references = ((text / f"test.{language}").read_text(encoding="utf-8").split("\n") for language in ("de", "en"))
    chosen = [sources[number] for number in SAMPLES]
    for number, translation in zip(SAMPLES, translator.translate(chosen, policy=translator.policy("uniform")), strict=True):
        words = word_exits(translation.tokens, translation.exits)
        print(f"\n  source     {sources[number]}")
        print("  exits      " + " ".join(f"{word}/{','.join(map(str, exits))}" for word, exits in words))
        print(f"  reference  {references[number]}", flush=True)
