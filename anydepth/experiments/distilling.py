"""Text for a distilled run: the training sources with the translations of a trained run in place of
the references (Kim & Rush, 2016)."""

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
    pairs = data.pairs("train")
    sources = [data.source_tokenizer.decode(pairs.source(number).tolist()) for number in range(len(pairs))]
    targets: list[str] = []
    for start in range(0, len(sources), PART):
        targets += [translation.line for translation in translator.translate(sources[start : start + PART])]
        say(f"translated {len(targets):,} of {len(sources):,} training sentences")
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
