"""`anydepth adopt`: a MarianMT folder becomes a run that translates as it does."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from torch import Tensor

from anydepth.config.loading import save_config
from anydepth.errors import AdoptionError
from anydepth.files.atomic import replacing_folder
from anydepth.files.locks import one_writer
from anydepth.inference.adopt.marian_settings import MarianSettings, read_settings
from anydepth.inference.adopt.marian_tensors import own_tensors
from anydepth.inference.adopt.marian_text import read_tokenizer_settings, read_tokenizers
from anydepth.inference.adopt.model_folder import PICKLED_WEIGHTS, ModelFolder
from anydepth.messages.say import Say
from anydepth.model.checkpoint import save_tensors
from anydepth.model.memory import check_memory
from anydepth.runs.run import Original, Run, check_place, note_adoption
from anydepth.text.marian import MarianTokenizer
from anydepth.text.prepared import LANGUAGE


@dataclass(frozen=True)
class AdoptedModel:
    """Everything of a folder, checked: settings, tokenizers and weights of a run."""

    settings: MarianSettings
    tokenizers: dict[str, MarianTokenizer]  # by the names of their files in a run
    languages: tuple[str, str]
    tensors: Mapping[str, Tensor]
    weights_name: str


def adopt(
    place: Path,
    to: Path,
    *,
    source_lang: str | None = None,
    target_lang: str | None = None,
    overwrite: bool = False,
    say: Say,
) -> Run:
    """The run at `to`, which now has the model of the MarianMT folder `place`, at full depth.

    The folder is read and checked as a whole before anything is written. `source_lang` and
    `target_lang` name the languages where the folder does not.
    """
    run = Run(Path(to))
    check_place(run, overwrite=overwrite, inside={"DIR": Path(place)})
    model = read_model(ModelFolder(place), source_lang, target_lang)
    if model.weights_name == PICKLED_WEIGHTS:
        say(f"{place / PICKLED_WEIGHTS} is a pickle: only its tensors were read (weights_only), nothing was executed")
    with one_writer(run.folder), replacing_folder(run.folder) as temporary:
        write_run(Run(temporary), model, ModelFolder(place))
    config = model.settings.config
    say(
        f"{run.folder}: {config.model.encoder.blocks}+{config.model.blocks} blocks of width "
        f"{config.model.decoder.dim}, {model.settings.target_size:,} words, {'-'.join(model.languages)}, beam "
        f"{config.decoding.beam}; full depth only, until exits are trained"
    )
    return run


def read_model(folder: ModelFolder, source_lang: str | None = None, target_lang: str | None = None) -> AdoptedModel:
    """The model in `folder`, checked."""
    settings = read_settings(folder)
    options = read_tokenizer_settings(folder, is_shared=settings.is_shared)
    tokenizers, vocabularies = read_tokenizers(
        folder, settings, clean_up=bool(options.get("clean_up_tokenization_spaces"))
    )
    config = settings.config.model
    check_memory(
        config,
        source_vocab=len(vocabularies[0].rows),
        target_vocab=len(vocabularies[1].rows),
        is_joint=settings.is_shared,
        copies=2,  # the folder's and ours
    )
    given, name = folder.weights()
    tensors = own_tensors(given, settings, vocabularies, str(folder.path / name))
    languages = (
        _language(source_lang or options.get("source_lang"), "source"),
        _language(target_lang or options.get("target_lang"), "target"),
    )
    return AdoptedModel(settings, tokenizers, languages, tensors, name)


def write_run(run: Run, model: AdoptedModel, folder: ModelFolder) -> None:
    """Fills the folder of a run, and seals it."""
    (run.folder / "checkpoints").mkdir()
    for name, tokenizer in model.tokenizers.items():
        tokenizer.save(run.folder / name)
    note_adoption(run, Original(str(folder.path.resolve()), folder.fingerprint()), model.languages)
    save_config(model.settings.config, run.config_file)
    save_tensors(run.weights_file, model.tensors)
    run.seal.make()


def _language(given: object, default: str) -> str:
    if given is None or given == "":
        return default
    if not isinstance(given, str) or not re.fullmatch(LANGUAGE, given):
        raise AdoptionError(f"the language {given!r} is no name; give --source-lang and --target-lang, as in de and en")
    return given
