"""Names and numbers that training never saw, with a model that has learned to copy."""

import random
from pathlib import Path

import pytest

from anydepth.config.shipped import shipped_file
from anydepth.inference.translator import Translator
from anydepth.runs.run import Run
from anydepth.runs.word_selections import TableSettings, learn_table
from anydepth.text.prepare import PrepareSettings, prepare
from anydepth.training.start import new_run, train_run

pytestmark = [pytest.mark.soak, pytest.mark.timeout(1800)]
WORDS = {"sieht": "sees", "hört": "hears", "sucht": "seeks", "malt": "paints", "kauft": "buys", "trägt": "carries"}
THINGS = {"den Hund": "the dog", "das Haus": "the house", "die Uhr": "the clock", "den Ball": "the ball"}
CHANGES = (
    "model.blocks=2",
    "model.encoder.blocks=1",
    "training.updates=1200",
    "training.batch_tokens=600",
    "training.learning_rate=4e-3",
    "validation.sentences=0",
)


def made_up_name(generator: random.Random) -> str:
    syllables = ("".join((generator.choice("bdfgklmnprstvz"), generator.choice("aeiou"))) for _ in range(3))
    return "".join(syllables).capitalize()


def pairs(count: int, seed: int) -> list[tuple[str, str, str, str]]:
    """Sentences with their translations, and the name and the number that both have."""
    generator = random.Random(seed)
    found = []
    for _ in range(count):
        name, number = made_up_name(generator), str(generator.randrange(100, 10_000))
        verb, thing = generator.choice(list(WORDS)), generator.choice(list(THINGS))
        source = f"{name} {verb} {thing} Nummer {number}."
        found.append((source, f"{name} {WORDS[verb]} {THINGS[thing]} number {number}.", name, number))
    return found


@pytest.fixture(scope="module")
def copying(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("copying")
    for split, count, seed in (("train", 12_000, 1), ("valid", 100, 2)):
        chosen = pairs(count, seed)
        (folder / f"{split}.de").write_text("".join(f"{pair[0]}\n" for pair in chosen), encoding="utf-8")
        (folder / f"{split}.en").write_text("".join(f"{pair[1]}\n" for pair in chosen), encoding="utf-8")
    train, valid = (str(folder / split) for split in ("train", "valid"))
    prepare(
        PrepareSettings(source_lang="de", target_lang="en", train=train, valid=valid, vocab_size=500), folder / "data"
    )
    run = folder / "run"
    train_run(run, lambda: new_run(run, shipped_file("demo"), folder / "data", list(CHANGES), overwrite=False))
    learn_table(Run(run), TableSettings(frequent=5, per_piece=100), say=lambda text: None)
    return run


@pytest.mark.parametrize("policy", ["fixed:2", "confidence:0.9"])
@pytest.mark.parametrize("vocabulary", ["table:2", "table:20"])
def test_unseen_names_and_numbers_are_copied_among_selected_words_as_among_all(
    copying: Path, vocabulary: str, policy: str
) -> None:
    train = {text for pair in pairs(12_000, 1) for text in pair[2:]}
    unseen = [pair for pair in pairs(400, 3) if not train & set(pair[2:])]
    assert len(unseen) > 20, "else this shows little"
    translator = Translator.load(copying)
    sources = [pair[0] for pair in unseen]
    copied = {}
    for setting in ("full", vocabulary):
        found = translator.translate(sources, policy=policy, vocabulary=setting)
        copied[setting] = [
            all(word in each.text for word in (name, number))
            for each, (_, _, name, number) in zip(found, unseen, strict=True)
        ]
        assert setting == "full" or max(each.words for each in found) < 500
    assert sum(copied["full"]) > 0.8 * len(unseen), "else the model has not learned to copy"
    lost = [was and not is_now for was, is_now in zip(copied["full"], copied[vocabulary], strict=True)]
    assert not any(lost)
