"""The built-in German-English corpus: generated from a grammar and a lexicon, the same for the same
seed everywhere."""

from collections.abc import Callable
from pathlib import Path
from random import Random

from anydepth.demo.grammar.complex import COMPLEX
from anydepth.demo.grammar.facts import FACTS
from anydepth.demo.grammar.sentences import SIMPLE
from anydepth.files.atomic import write_text

SPLIT_SIZES = {"train": 24000, "valid": 500, "test": 500}
MIN_WORDS, MAX_WORDS = 4, 25
SENTENCES = SIMPLE + COMPLEX + FACTS


def finished(sentence: str) -> str:
    """The sentence with a capital and a final mark, and without a comma before that mark."""
    mark = sentence[-1] if sentence[-1] in "?!" else "."
    body = sentence.rstrip("?!").rstrip(", ")
    return body[0].upper() + body[1:] + mark


def choose_maker(random: Random) -> Callable[[Random], tuple[str, str]]:
    """The function for a kind of sentence, as often as its weight says."""
    roll = random.random() * sum(weight for weight, _ in SENTENCES)
    for weight, maker in SENTENCES:
        roll -= weight
        if roll < 0:
            return maker
    return SENTENCES[-1][1]


def draw_pair(random: Random) -> tuple[str, str]:
    """One German sentence and its translation, of any length."""
    german, english = choose_maker(random)(random)
    return finished(german), finished(english)


def has_proper_length(sentence: str) -> bool:
    """Whether the sentence has MIN_WORDS to MAX_WORDS words."""
    return MIN_WORDS <= len(sentence.split()) <= MAX_WORDS


def generate_corpus(*, seed: int = 1) -> dict[str, list[tuple[str, str]]]:
    """The pairs of each split; a German sentence occurs once in the whole corpus, so it has one
    translation and one split."""
    random = Random(seed)
    translations: dict[str, str] = {}
    wanted = sum(SPLIT_SIZES.values())
    while len(translations) < wanted:
        german, english = draw_pair(random)
        if has_proper_length(german) and has_proper_length(english):
            translations.setdefault(german, english)
    pairs = list(translations.items())
    corpus, start = {}, 0
    for split, size in SPLIT_SIZES.items():
        corpus[split] = pairs[start : start + size]
        start += size
    return corpus


def write_corpus(folder: Path, *, seed: int = 1) -> dict[str, int]:
    """How many pairs each split has, after writing train, valid and test as `.de` and `.en` files,
    one sentence per line."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    corpus = generate_corpus(seed=seed)
    for split, pairs in corpus.items():
        write_text(folder / f"{split}.de", "".join(german + "\n" for german, _ in pairs))
        write_text(folder / f"{split}.en", "".join(english + "\n" for _, english in pairs))
    return {split: len(pairs) for split, pairs in corpus.items()}
