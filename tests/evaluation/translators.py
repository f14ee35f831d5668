"""Translators of the tiny sizes with words of their own, in memory or from a run directory, none of
them trained; and text for them."""

from pathlib import Path

import torch
from tiny import prepare_tiny, tiny_config

from anydepth.config.schema import DecodingConfig
from anydepth.exits.adaptive import AdaptiveTransformer
from anydepth.inference.translator import Translator
from anydepth.model.checkpoint import model_tensors, save_tensors
from anydepth.runs.models import new_model
from anydepth.runs.run import Run, create_run
from anydepth.text.tokenizer import EOS, train_tokenizer

SOURCES = ["der hund läuft", "", "die katze schläft heute"]
REFERENCES = ["the dog runs", "", "the cat sleeps today"]


def make_translator(*changes: str) -> Translator:
    """An untrained model with tokenizers for SOURCES and REFERENCES; some of its sentences end
    before their limit."""
    torch.manual_seed(1)
    tokenizer = train_tokenizer(SOURCES + REFERENCES, vocab_size=290)
    model = AdaptiveTransformer(
        tiny_config(*changes), source_vocab=tokenizer.size, target_vocab=tokenizer.size, is_joint=True
    )
    spread(model)
    return Translator(
        model.eval(),
        tokenizer,
        tokenizer,
        DecodingConfig(beam=3, length_penalty=0.5, length_ratio=1.0, length_offset=2),
    )


def make_run(folder: Path, *changes: str) -> Run:
    """A run directory with random weights, beside its data and the text in train, valid.{de,en}."""
    run = create_run(
        folder / "run", tiny_config("decoding.beam=2", "decoding.length_offset=3", *changes), prepare_tiny(folder)
    )
    torch.manual_seed(1)
    model = new_model(run)
    spread(model)
    save_tensors(run.weights_file, model_tensors(model))
    return run


@torch.no_grad()
def spread(model: AdaptiveTransformer) -> None:
    """Makes words, ends of sentences and exits that differ more likely than those of fresh
    weights."""
    for n in model.config.classifier_exits:
        model.classifier(n).mul_(2)
        model.classifier(n)[EOS] *= 2
    if model.output_bias is not None:
        model.output_bias.copy_(torch.randn_like(model.output_bias))
    if model.halting is not None:
        for parameter in model.halting.parameters():
            parameter.copy_(torch.randn_like(parameter))


def write_pairs(prefix: Path, pairs: list[tuple[str, str]]) -> str:
    """The prefix of the files that now hold these pairs, one per line."""
    for language, lines in zip(("de", "en"), zip(*pairs, strict=True), strict=True):
        prefix.with_suffix(f".{language}").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return str(prefix)


def training_pairs(run: Run) -> list[tuple[str, str]]:
    """The lines beside a run that it was, or would be, trained on."""
    sides = [
        (run.folder.parent / f"train.{language}").read_text(encoding="utf-8").splitlines() for language in ("de", "en")
    ]
    return list(zip(*sides, strict=True))


def quiet(text: str) -> None:
    """Nobody listens."""
