"""WMT'14 English-French: five corpora of about 40 million pairs, Moses tokens, a held-out split,
and newstest2014."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from anydepth.messages.say import Say, say_nothing
from anydepth.text.recipes.archives import TextFile, WantedFile, in_twos
from anydepth.text.recipes.moses import Cleaning, PairTokenizer, load_sacremoses
from anydepth.text.recipes.pairs import Pair, in_step, tokenized, with_progress
from anydepth.text.recipes.segments import segment_pairs
from anydepth.text.recipes.writing import CorpusRecipe, CorpusRecord, Expected, SplitWriter, write_recipe

LANGUAGES = ("en", "fr")
# In the order in which they are joined: every 1333rd pair of the whole is held out.
CORPORA = (
    ("europarl-v7.fr-en.{}", ("training-parallel-europarl-v7.tgz",)),
    ("commoncrawl.fr-en.{}", ("training-parallel-commoncrawl.tgz",)),
    ("undoc.2000.fr-en.{}", ("training-parallel-un.tgz", "un.tgz")),
    ("news-commentary-v9.fr-en.{}", ("training-parallel-nc-v9.tgz",)),
    ("giga-fren.release2.fixed.{}", ("training-giga-fren.tar",)),
)
TEST_FILES = ("newstest2014-fren-src.en.sgm", "newstest2014-fren-ref.fr.sgm")
TEST_ARCHIVE = ("test-full.tgz",)
VALID_EVERY = 1333
MAX_WORDS = Cleaning.max_words
# The paper says 35.5 million and 26 thousand; these are the numbers of the pre-processing that it
# rests on.
EXPECTED = {
    "train": Expected(35_482_654, tolerance=0.01),
    "valid": Expected(26_663, tolerance=0.01),
    "test": Expected(3_003),
}


def write_wmt14_en_fr(
    places: Sequence[Path],
    to: Path,
    *,
    max_words: int = MAX_WORDS,
    jobs: int = 1,
    say: Say = say_nothing,
) -> CorpusRecord:
    """The record of the splits at `to`, made from the official archives as prepare-wmt14en2fr.sh of
    fairseq makes them, up to its BPE.

    Departure: pairs are cleaned by their numbers of words before BPE, not of pieces after it.
    """
    load_sacremoses()
    cleaning = Cleaning(max_words)

    def fill(writer: SplitWriter, files: list[TextFile]) -> None:
        *corpora, test = in_twos(files)
        training = PairTokenizer(LANGUAGES, normalize=True, split_hyphens=True)
        pairs = with_progress(tokenized(corpus_pairs(corpora, say), training, jobs=jobs), "train and valid", say)
        for number, (source, target) in enumerate(pairs, start=1):
            split = "valid" if number % VALID_EVERY == 0 else "train"
            reason = cleaning.reason(source, target)
            if reason is None:
                writer.write(split, source, target)
            else:
                writer.drop(split, reason)
        for source, target in tokenized(segment_pairs([test]), PairTokenizer(LANGUAGES, split_hyphens=True)):
            writer.write("test", source, target)

    return write_recipe(_recipe(cleaning), places, to, fill, say=say)


def corpus_pairs(corpora: Iterable[tuple[TextFile, TextFile]], say: Say) -> Iterator[Pair]:
    """The pairs of all corpora, one corpus after the other; the sides of each must have as many
    lines."""
    for source, target in corpora:
        say(f"reading {source.name} and {target.name}")
        yield from in_step(source.lines(), target.lines(), (str(source), str(target)))


def _recipe(cleaning: Cleaning) -> CorpusRecipe:
    wanted = []
    for pattern, archives in CORPORA:
        for language in LANGUAGES:
            name = pattern.format(language)
            wanted.append(WantedFile((name, f"{name}.gz"), archives))
    return CorpusRecipe(
        name="wmt14-en-fr",
        languages=LANGUAGES,
        wanted=[*wanted, *(WantedFile((name,), TEST_ARCHIVE) for name in TEST_FILES)],
        expected=EXPECTED,
        settings={
            "tokenizer": "moses",
            "split_hyphens": True,
            "normalize_punctuation": True,
            "lowercase": False,
            "max_words": cleaning.max_words,
            "max_ratio": cleaning.max_ratio,
            "valid_every": VALID_EVERY,
            "corpora": [pattern.removesuffix(".{}") for pattern, _ in CORPORA],
        },
        prepare=("--vocab-size", "44000", "--max-ratio", "10"),
        packages=("sacremoses",),
    )
