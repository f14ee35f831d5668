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
    *("<<unk>", "<pad></s>", "<0xE2>", "<0x0A>", "\ufb01", "\u2460", "e\u0301", "\u2163", "\uff46\uff55\uff4c\uff4c"),
    *("\u00df", "\u0130", "\u017f", "\u202e", "\ue000", "\u2603", "\U0001f1e9\U0001f1ea", "\U0010ffff", "漢字", "かな"),
    *("한글", "עברית", "العربية", "ไทย", "Ελλάδα", "русский", "हिन्दी", "\U0001f469\u200d\U0001f469\u200d\U0001f467"),
    *("'", '"', "„", "“", "—", "…", "%", "1.000,50", "a.b@c.de", "x.y/?z=1&w=2", "C++", "don't", "it 's", "n't"),
    "a" * 300,
    ".,;:!?" * 20,
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


SMALL = {
    "d_model": 24,
    "encoder_layers": 2,
    "decoder_layers": 3,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 3,
    "encoder_ffn_dim": 20,
    "decoder_ffn_dim": 28,
    "activation_function": "swish",
    "scale_embedding": True,
    "max_position_embeddings": 64,
}


def save_marian(
    folder: Path, *, seed: int = 1, is_separate: bool = False, is_half: bool = False, search: Any = None, **changes: Any
) -> Any:
    """A MarianMT model of random weights, biases included, saved in `folder` with its tokenizer; it
    ends most outputs before they are long."""
    import torch

    package = transformers()
    sizes = write_tokenizer(folder, is_separate=is_separate)
    start = min(sizes) - 1
    config = package.MarianConfig(
        **{
            **SMALL,
            "vocab_size": sizes[0],
            "decoder_vocab_size": sizes[1],
            "pad_token_id": start,
            "decoder_start_token_id": start,
            "eos_token_id": 0,
            "forced_eos_token_id": 0,
            "share_encoder_decoder_embeddings": not is_separate,
            **changes,
        }
    )
    torch.manual_seed(seed)
    model = package.MarianMTModel(config).eval()
    randomize(model)
    for name, value in {"bad_words_ids": [[start]], "max_length": 24, "num_beams": 1, **(search or {})}.items():
        setattr(model.generation_config, name, value)
    (model.half() if is_half else model).save_pretrained(folder)
    return loaded_marian(folder) if is_half else model


def save_opus(folder: Path, **options: Any) -> None:
    """A model as `save_marian` makes it whose decoder starts from a zero embedding, as OPUS-MT's do,
    and which ends fewer outputs at once."""
    import torch

    model = save_marian(folder, **options)
    with torch.no_grad():
        model.model.shared.weight[model.config.pad_token_id] = 0
        model.final_logits_bias[0, model.config.eos_token_id] = 4.0
    model.save_pretrained(folder)


def loaded_marian(folder: Path) -> Any:
    """The model of the folder as transformers loads it, in float32."""
    import torch

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return transformers().MarianMTModel.from_pretrained(folder, dtype=torch.float32).eval()


def randomize(model: Any) -> None:
    """Gives every weight and bias a value of its own, so that none could be left out unnoticed."""
    import torch

    dim = model.config.d_model
    with torch.no_grad():
        for name, tensor in [*model.named_parameters(), ("final_logits_bias", model.final_logits_bias)]:
            if "embed_positions" in name:
                continue
            is_norm = "layer_norm" in name and name.endswith("weight")
            # what blocks add outweighs the embedding, else a tied classifier repeats the last word
            scale = 0.2 if tensor.ndim == 1 else dim**-0.5 * (2.5 if ".layers." in name else 1)
            tensor.copy_(torch.randn_like(tensor) * scale + is_norm)
        model.final_logits_bias[:] = torch.randn_like(model.final_logits_bias)
        model.final_logits_bias[0, model.config.eos_token_id] = 6.0


def their_outputs(folder: Path, lines: Sequence[str], **options: Any) -> list[list[int]]:
    """The rows that transformers' `generate` gives for each line, without the start, up to the
    end."""
    import torch

    model, tokenizer = loaded_marian(folder), their_tokenizer(folder)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        longest = model.config.max_position_embeddings
        inputs = tokenizer(list(lines), return_tensors="pt", padding=True, truncation=True, max_length=longest)
        with torch.inference_mode():
            found = model.generate(**inputs, **options)
    end = model.generation_config.eos_token_id
    rows = [each[1:] for each in found.tolist()]
    return [each[: each.index(end) + 1] if end in each else each for each in rows]


def drawn_shape(generator: random.Random) -> dict[str, Any]:
    """What a folder may vary in, drawn at random: arguments of `save_marian`."""
    heads = generator.choice([1, 2, 4])
    dim = heads * generator.choice([2, 6, 10]) * 2
    return {
        "is_separate": generator.random() < 0.4,
        "is_half": generator.random() < 0.3,
        "d_model": dim,
        "encoder_attention_heads": heads,
        "decoder_attention_heads": generator.choice([heads, 1, 2 * heads]),
        "encoder_layers": generator.randrange(1, 4),
        "decoder_layers": generator.randrange(1, 4),
        "encoder_ffn_dim": generator.randrange(3, 40),
        "decoder_ffn_dim": generator.randrange(3, 40),
        "activation_function": generator.choice(["relu", "gelu", "swish", "silu"]),
        "scale_embedding": generator.random() < 0.7,
        "tie_word_embeddings": generator.random() < 0.8,
        "max_position_embeddings": generator.choice([48, 64, 100]),
        "search": {
            "num_beams": 4,
            "renormalize_logits": generator.random() < 0.5,
            "early_stopping": generator.random() < 0.5,
            "length_penalty": generator.choice([1.0, 0.6]),
        },
    }
