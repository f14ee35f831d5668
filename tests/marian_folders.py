"""Folders as transformers writes and reads them: MarianMT models of any shape with random weights,
and small tokenizers with a vocabulary as OPUS-MT has it."""

import functools
import io
import json
import random
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import sentencepiece

from anydepth.demo.corpus import draw_pair

LANGUAGES = (">>de<<", ">>en<<")
PIECES = 160


@functools.cache
def small_pairs(count: int = 400) -> list[tuple[str, str]]:
    """Sentences of the built-in corpus, the same every time."""
    generator = random.Random(5)
    return [draw_pair(generator) for _ in range(count)]


@functools.cache
def spm(side: int, *, kind: str = "unigram", bytes_too: bool = False, pieces: int = PIECES) -> bytes:
    """A SentencePiece model of the source (0) or target (1) side, with SentencePiece's own
    normalisation, as OPUS-MT's are."""
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=(pair[side] for pair in small_pairs()),
        model_writer=model,
        model_type=kind,
        vocab_size=pieces + 256 * bytes_too,
        byte_fallback=bytes_too,
        hard_vocab_limit=False,
        minloglevel=2,
    )
    return model.getvalue()


def pieces_of(model: bytes) -> list[str]:
    """The pieces of a SentencePiece model without its control pieces."""
    processor = sentencepiece.SentencePieceProcessor(model_proto=model)
    numbers = range(processor.get_piece_size())
    return [processor.id_to_piece(n) for n in numbers if not processor.is_control(n) and not processor.is_unknown(n)]


def vocabulary(models: Sequence[bytes], languages: Sequence[str] = ()) -> dict[str, int]:
    """vocab.json as OPUS-MT has it: </s>, <unk>, all pieces in an order of their own, <pad>."""
    pieces = list(dict.fromkeys(piece for model in models for piece in pieces_of(model)))
    random.Random(3).shuffle(pieces)
    # some pieces of the models are missing, as in any vocabulary of limited size
    names = ["</s>", "<unk>", *languages, *pieces[: len(pieces) - 7], "<pad>"]
    return {name: number for number, name in enumerate(names)}


def write_tokenizer(
    folder: Path, *, is_separate: bool = False, languages: Sequence[str] = LANGUAGES, **options: Any
) -> tuple[int, int]:
    """Writes source.spm, target.spm, vocab.json and tokenizer_config.json; the sizes of the two
    vocabularies."""
    models = [spm(side, **options) for side in (0, 1)]
    vocabularies = (
        [vocabulary([model], languages) for model in models] if is_separate else [vocabulary(models, languages)]
    )
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "source.spm").write_bytes(models[0])
    (folder / "target.spm").write_bytes(models[1])
    for name, values in zip(("vocab.json", "target_vocab.json"), vocabularies, strict=False):
        write_json(folder / name, values)
    write_json(
        folder / "tokenizer_config.json",
        {"source_lang": "de", "target_lang": "en", "separate_vocabs": is_separate, "model_max_length": 512},
    )
    return len(vocabularies[0]), len(vocabularies[-1])


def write_json(path: Path, values: Any) -> None:
    """Writes `values` as JSON."""
    path.write_text(json.dumps(values), encoding="utf-8")


def changed_json(path: Path, **changes: Any) -> None:
    """Sets values of the JSON object at `path`."""
    values = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    write_json(path, {**values, **changes})


def transformers() -> Any:
    """The package, or the test is skipped where it is not there."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = pytest.importorskip("transformers", exc_type=ImportError)
        found.logging.set_verbosity_error()
        found.logging.disable_progress_bar()
        return found


def their_tokenizer(folder: Path) -> Any:
    """transformers' own tokenizer of the folder."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return transformers().MarianTokenizer.from_pretrained(folder)


ODD = [
    *("", " ", "  ", "\t", "\n", "\r\n", "\0", "\u200b", "\ufeff", "\u2581", "\u3000", "\xa0", "\xad", "\u2028"),
    *(">>", "<<", ">>de<<", ">>en<<", ">>xx<<", ">> de <<", ">><<", "<", ">", "</s>", "<unk>", "<pad>", "<s>", "</s"),
    *(
        "<<unk>",
        "<pad></s>",
        "<0xE2>",
        "<0x0A>",
        "ﬁ",
        "①",
        "e\u0301",
        "Ⅳ",
        "ｆｕｌｌ",
        "ß",
        "İ",
        "ſ",
        "\u202e",
        "\ue000",
    ),
    *(
        "☃",
        "👩‍👩‍👧",
        "🇩🇪",
        "\U0010ffff",
        "漢字",
        "かな",
        "한글",
        "עברית",
        "العربية",
        "ไทย",
        "Ελλάδα",
        "русский",
        "हिन्दी",
    ),
    *("'", '"', "„", "“", "—", "…", "%", "1.000,50", "a.b@c.de", "http://x.y/?z=1&w=2", "C++", "don't", "it 's", "n't"),
    *("a" * 300, ".,;:!?" * 20),
]


def hostile_lines(count: int, *, seed: int = 1) -> list[str]:
    """Lines made of odd strings, words, and single characters from all of Unicode."""
    generator = random.Random(seed)
    words = [word for pair in small_pairs() for side in pair for word in side.split()]

    def part() -> str:
        roll = generator.random()
        if roll < 0.45:
            return generator.choice(ODD)
        if roll < 0.8:
            return generator.choice(words)
        code = generator.randrange(0x110000 if roll < 0.9 else 0x250)
        return "" if 0xD800 <= code < 0xE000 else chr(code)

    return [generator.choice(["", " "]).join(part() for _ in range(generator.randrange(0, 12))) for _ in range(count)]
