"""Multi30k, task 1: captions of pictures in four languages, as raw text in the official splits."""

from collections.abc import Sequence
from pathlib import Path

from anydepth.errors import UsageError
from anydepth.messages.say import Say, say_nothing
from anydepth.text.recipes.archives import TextFile, WantedFile, in_twos
from anydepth.text.recipes.pairs import in_step
from anydepth.text.recipes.writing import SPLITS, CorpusRecipe, CorpusRecord, Expected, SplitWriter, write_recipe

LANGUAGES = ("cs", "de", "en", "fr")
# What each split is called in the repository of the dataset and in the archives of the shared
# tasks.
STEMS = {"train": ("train",), "valid": ("val",), "test": ("test_2016_flickr", "test2016", "test")}
ARCHIVES = {
    "train": ("training.tar.gz",),
    "valid": ("validation.tar.gz",),
    "test": ("mmt16_task1_test.tar.gz", "mmt_task1_test2016.tar.gz"),
}
EXPECTED = {"train": Expected(29_000), "valid": Expected(1_014), "test": Expected(1_000)}


def write_multi30k(
    places: Sequence[Path],
    to: Path,
    *,
    source_lang: str = "de",
    target_lang: str = "en",
    say: Say = say_nothing,
) -> CorpusRecord:
    """The record of the splits at `to`, whose lines are those of the archives, unchanged; test is
    that of 2016."""
    for language in (source_lang, target_lang):
        if language not in LANGUAGES:
            raise UsageError(f"Multi30k is in {', '.join(LANGUAGES)} but not in {language!r}; choose two of these")
    if source_lang == target_lang:
        raise UsageError(f"source and target language are both {source_lang!r}; name two different ones")

    def fill(writer: SplitWriter, files: list[TextFile]) -> None:
        for split, (source, target) in zip(SPLITS, in_twos(files), strict=True):
            if source.name.partition(".")[0] != target.name.partition(".")[0]:
                raise UsageError(f"{source} and {target} are not two sides of one text; give archives that have both")
            for source_line, target_line in in_step(source.lines(), target.lines(), (str(source), str(target))):
                writer.write(split, source_line, target_line)

    return write_recipe(_recipe((source_lang, target_lang)), places, to, fill, say=say)


def _recipe(languages: tuple[str, str]) -> CorpusRecipe:
    wanted = []
    for split in SPLITS:
        for language in languages:
            names = tuple(f"{stem}.{language}{ending}" for stem in STEMS[split] for ending in ("", ".gz"))
            wanted.append(WantedFile(names, ARCHIVES[split]))
    return CorpusRecipe(
        name="multi30k",
        languages=languages,
        wanted=wanted,
        expected=EXPECTED,
        settings={"tokenizer": "none", "lowercase": False, "test_sets": ["test_2016_flickr"]},
        prepare=("--vocab-size", "3000"),
    )
