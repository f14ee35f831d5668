"""IWSLT'14 German-English: TED talks, Moses tokens in lower case, in the splits of the paper."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from anydepth.messages.say import Say, say_nothing
from anydepth.text.recipes.archives import TextFile, WantedFile, in_twos
from anydepth.text.recipes.moses import Cleaning, PairTokenizer, load_sacremoses, lowercased
from anydepth.text.recipes.pairs import in_step, tokenized, with_progress
from anydepth.text.recipes.segments import segment_pairs
from anydepth.text.recipes.writing import CorpusRecipe, CorpusRecord, Expected, SplitWriter, write_recipe

LANGUAGES = ("de", "en")
TEST_SETS = ("TED.dev2010", "TEDX.dev2012", "TED.tst2010", "TED.tst2011", "TED.tst2012")
VALID_EVERY = 23
EXPECTED = {"train": Expected(160_239), "valid": Expected(7_283), "test": Expected(6_750)}
# Lines with these are about the talk; the last five are not in the archive of 2014, but in those of
# later years.
METADATA = ("<url>", "<talkid>", "<keywords>", "<speaker>", "<reviewer>", "<translator>", "<doc ", "</doc>")
# These stand around text that is kept.
TAGS = ("<title>", "</title>", "<description>", "</description>")


def write_iwslt14(
    places: Sequence[Path],
    to: Path,
    *,
    keep_case: bool = False,
    jobs: int = 1,
    say: Say = say_nothing,
) -> CorpusRecord:
    """The record of the splits at `to`, made from de-en.tgz as prepare-iwslt14.sh of fairseq makes
    them, up to its BPE."""
    load_sacremoses()
    cleaning = Cleaning()
    finish: Callable[[str], str] = str if keep_case else lowercased
    recipe = _recipe(cleaning, keep_case=keep_case)

    def fill(writer: SplitWriter, files: list[TextFile]) -> None:
        (german, english), *tests = in_twos(files)
        pairs = in_step(talk_text(german.lines()), talk_text(english.lines()), (str(german), str(english)))
        kept, tokens = 0, tokenized(pairs, PairTokenizer(LANGUAGES), jobs=jobs)
        for source, target in with_progress(tokens, "train and valid", say):
            reason = cleaning.reason(source, target)
            if reason is None:
                kept += 1
                writer.write("valid" if kept % VALID_EVERY == 0 else "train", finish(source), finish(target))
            else:
                writer.drop("train", reason)
        for source, target in tokenized(segment_pairs(tests), PairTokenizer(LANGUAGES)):
            writer.write("test", finish(source), finish(target))

    return write_recipe(recipe, places, to, fill, say=say)


def talk_text(lines: Iterable[str]) -> Iterator[str]:
    """The lines of text with titles and descriptions, freed of their tags; other lines about the
    talk are left out."""
    for line in lines:
        if not any(tag in line for tag in METADATA):
            for tag in TAGS:
                line = line.replace(tag, "")
            yield line


def _recipe(cleaning: Cleaning, *, keep_case: bool) -> CorpusRecipe:
    names = [f"train.tags.de-en.{language}" for language in LANGUAGES]
    names += [f"IWSLT14.{test}.de-en.{language}.xml" for test in TEST_SETS for language in LANGUAGES]
    return CorpusRecipe(
        name="iwslt14",
        languages=LANGUAGES,
        wanted=[WantedFile((name,), ("de-en.tgz",)) for name in names],
        expected=EXPECTED,
        settings={
            "tokenizer": "moses",
            "lowercase": not keep_case,
            "max_words": cleaning.max_words,
            "max_ratio": cleaning.max_ratio,
            "valid_every": VALID_EVERY,
            "test_sets": list(TEST_SETS),
        },
        # The pairs are balanced in words, so none needs to go for the number of its pieces.
        prepare=("--vocab-size", "10000", "--max-ratio", "10"),
        packages=("sacremoses",),
    )
