"""Text for distilled runs: the training sources with the translations of a trained run in place of
the references (Kim & Rush, 2016), or beside them."""

from collections.abc import Sequence
from pathlib import Path

from anydepth.files.atomic import replacing
from anydepth.inference.translator import Translator
from anydepth.messages.say import Say
from anydepth.text.prepare import PrepareSettings, prepare
from anydepth.text.prepared import PreparedData

PART = 2000  # sentences between two reports


def distilled_data(teacher: Path, data: PreparedData, to: Path, *, say: Say) -> None:
    """Prepared data at `to` in the vocabulary of `data`, whose training targets are what the run
    `teacher` says at full depth."""
    translator = Translator.load(teacher)
    sources, _ = training_lines(data)
    targets: list[str] = []
    for start in range(0, len(sources), PART):
        targets += [translation.line for translation in translator.translate(sources[start : start + PART])]
        say(f"translated {len(targets):,} of {len(sources):,} training sentences")
    prepare_like(data, sources, targets, to, say=say)


def joined_data(data: PreparedData, distilled: PreparedData, to: Path, *, say: Say) -> None:
    """Prepared data at `to` in the vocabulary of `data`, whose training pairs are those of `data` and
    then those of `distilled`."""
    own, others = training_lines(data), training_lines(distilled)
    prepare_like(data, [*own[0], *others[0]], [*own[1], *others[1]], to, say=say)


def training_lines(data: PreparedData) -> tuple[list[str], list[str]]:
    """The sources and the targets of the training pairs as text."""
    pairs = data.pairs("train")
    sources = [data.source_tokenizer.decode(pairs.source(number).tolist()) for number in range(len(pairs))]
    targets = [data.target_tokenizer.decode(pairs.target(number).tolist()) for number in range(len(pairs))]
    return sources, targets


def prepare_like(data: PreparedData, sources: Sequence[str], targets: Sequence[str], to: Path, *, say: Say) -> None:
    """Prepares these training pairs at `to` in the way and in the vocabulary of `data`, with its
    held-out text."""
    text = to.parent / f"{to.name}.text"
    text.mkdir(parents=True, exist_ok=True)
    languages = data.source_lang, data.target_lang
    for language, lines in zip(languages, (sources, targets), strict=True):
        with replacing(text / f"train.{language}") as temporary:
            temporary.write_text("".join(line + "\n" for line in lines), encoding="utf-8")
    train, valid, test = str(text / "train"), str(data.folder / "valid"), str(data.folder / "test")
    limits = {name: data.manifest.settings[name] for name in ("max_tokens", "max_ratio")}
    settings = PrepareSettings(
        source_lang=data.source_lang,
        target_lang=data.target_lang,
        train=train,
        valid=valid,
        test=test,
        joint=data.is_joint,
        **limits,
        tokenizer_from=str(data.folder),
    )
    prepare(settings, to, overwrite=True, say=say)
