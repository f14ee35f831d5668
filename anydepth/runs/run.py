"""The run directory: settings, tokenizers and weights; every later command takes the directory and
nothing else."""

import json
import re
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from torch import Tensor

from anydepth.config.loading import load_config, save_config
from anydepth.config.schema import Config
from anydepth.errors import RunError
from anydepth.files.atomic import put_back, replacing_folder
from anydepth.files.checksums import known_hash
from anydepth.files.locks import one_writer
from anydepth.files.reading import Unreadable, json_of
from anydepth.files.seal import Seal, write_text
from anydepth.model.checkpoint import load_notes, save_tensors
from anydepth.model.memory import check_memory
from anydepth.text.marian import AnyTokenizer, target_side, tokenizer_of
from anydepth.text.prepared import PreparedData

ADOPTED = "adopted_from"  # in the note on a run's data: the folder of another program's model
ADOPTED_FILES = "adopted_files"  # beside it: the fingerprint of that folder
INTERRUPTED = "interrupted"  # the note of weights whose training was stopped: the update


@dataclass(frozen=True)
class Original:
    """The folder of another program's model, and the fingerprint that it had when it was adopted;
    empty where that was not noted."""

    folder: str
    fingerprint: str


@dataclass(frozen=True)
class Run:
    """The places in a run directory, and what can be loaded from them."""

    folder: Path

    def __post_init__(self) -> None:
        put_back(self.folder)  # what `--overwrite` took away and was killed before it gave something else

    @property
    def seal(self) -> Seal:
        """The record of the run's files, by which each is known to be whole and its own."""
        return Seal(self.folder)

    @property
    def config_file(self) -> Path:
        return self.folder / "config.toml"

    @property
    def data_file(self) -> Path:
        return self.folder / "data.json"

    @property
    def weights_file(self) -> Path:
        return self.folder / "model.safetensors"

    @property
    def start_file(self) -> Path:
        """The weights that training starts from, where it does not start from random ones."""
        return self.folder / "start.safetensors"

    @property
    def origin_file(self) -> Path:
        """Which run those weights are of; a run that starts from random weights has none."""
        return self.folder / "origin.json"

    @property
    def scores_file(self) -> Path:
        """The scores of what this run translates at each exit, which `anydepth score-exits`
        makes."""
        return self.folder / "exit_scores.safetensors"

    @property
    def oracle_scores_file(self) -> Path:
        """A copy of the scores of the run that this one started from, where its oracle chooses by
        them."""
        return self.folder / "oracle_scores.safetensors"

    @property
    def points_file(self) -> Path:
        return self.folder / "operating_points.json"

    @property
    def table_file(self) -> Path:
        """The lexical table, which `anydepth vocabulary` learns."""
        return self.folder / "lexical_table.safetensors"

    @property
    def learned_words_file(self) -> Path:
        """The learned word selection, which `anydepth vocabulary --learned` trains."""
        return self.folder / "learned_words.safetensors"

    @property
    def vocabulary_file(self) -> Path:
        """The vocabulary settings that were measured, and the one that is used by default."""
        return self.folder / "vocabulary.json"

    def best_file(self, update: int) -> Path:
        """The weights of the best validation so far, which the training state holds the update
        of."""
        return self.folder / f"best-{update:07d}.safetensors"

    def best_files(self) -> list[Path]:
        """The stored best weights, oldest first; a missing one is listed too, so that its absence
        is noticed."""
        return [self.folder / name for name in self.seal.names() if re.fullmatch(r"best-\d{7,}\.safetensors", name)]

    @property
    def state_file(self) -> Path:
        return self.folder / "state.safetensors"

    @property
    def metrics_file(self) -> Path:
        return self.folder / "metrics.jsonl"

    @property
    def log_file(self) -> Path:
        return self.folder / "train.log"

    def interrupted_at(self) -> int | None:
        """The update at which a user stopped the training that the weights are of; None if it
        ended, or if there are no weights."""
        if not self.weights_file.exists():
            return None
        self.seal.check(self.weights_file)
        update = load_notes(self.weights_file).get(INTERRUPTED)
        return int(update) if update is not None and re.fullmatch("[0-9]{1,12}", update) else None

    def checkpoint_file(self, update: int) -> Path:
        return self.folder / "checkpoints" / f"update-{update:07d}.safetensors"

    def checkpoints(self) -> list[tuple[int, Path]]:
        """The stored checkpoints with their updates, oldest first; a missing one is listed too,
        so that its absence is noticed."""
        stored = [re.fullmatch(r"checkpoints/update-(\d{7,})\.safetensors", name) for name in self.seal.names()]
        return sorted((int(match[1]), self.folder / match[0]) for match in stored if match)

    @property
    def config(self) -> Config:
        """The settings that the run was made with."""
        self._check_is_run()
        self.seal.check(self.config_file)
        return load_config(self.config_file)

    def data_note(self) -> dict[str, str]:
        """Where the training data was, its fingerprint and its languages."""
        try:
            note: dict[str, str] = json_of(self.seal.read(self.data_file))
        except Unreadable as error:
            raise RunError(
                f"{self.data_file} cannot be read ({error}); restore it from a copy or train again"
            ) from error
        known = ("folder", "fingerprint", "source_lang", "target_lang")
        if not isinstance(note, dict) or not all(isinstance(note.get(name), str) for name in known):
            raise RunError(
                f"{self.data_file} does not tell what the run was trained on; restore it from a copy or train again"
            )
        return note

    def original(self) -> Original | None:
        """The folder that the model was adopted from, by this run or by the one that it started
        from; None where there is none."""
        note: Mapping[str, object] = self.data_note()
        if ADOPTED not in note and self.seal.has(self.origin_file):
            try:
                found = json_of(self.seal.read(self.origin_file))
            except Unreadable:
                return None
            note = found if isinstance(found, dict) else {}
        folder, fingerprint = note.get(ADOPTED), note.get(ADOPTED_FILES, "")
        return Original(folder, str(fingerprint)) if isinstance(folder, str) else None

    @property
    def is_joint(self) -> bool:
        """Whether one vocabulary serves both sides."""
        self._check_is_run()
        return self.seal.has(self.folder / "tokenizer.model")

    def tokenizers(self) -> tuple[AnyTokenizer, AnyTokenizer]:
        """The source and the target tokenizer; of one vocabulary where it is joint."""
        if self.is_joint:
            tokenizer = self._tokenizer(self.folder / "tokenizer.model")
            return tokenizer, target_side(tokenizer)
        return self._tokenizer(self.folder / "tokenizer.source.model"), self._tokenizer(
            self.folder / "tokenizer.target.model"
        )

    def _check_is_run(self) -> None:
        """Refuses a folder that was never a run, which has neither settings nor a seal."""
        if not self.config_file.exists() and not self.seal.file.exists():
            raise RunError(
                f"{self.folder} is not a run directory: it has no config.toml; make one with `anydepth train`"
            )

    def _tokenizer(self, path: Path) -> AnyTokenizer:
        return tokenizer_of(self.seal.read(path), path)


@contextmanager
def changing(folder: Path) -> Iterator[None]:
    """While inside, no other command may write to the run at `folder`; what is no run is refused
    first."""
    _ = Run(folder).config  # raises where there is none
    with one_writer(folder):
        yield


def create_run(
    folder: Path,
    config: Config,
    data: PreparedData,
    *,
    overwrite: bool = False,
    origin: Run | None = None,
    start: Mapping[str, Tensor] | None = None,
    oracle_scores: Path | None = None,
) -> Run:
    """A new run directory that holds the settings, the tokenizers and the weights to `start` from,
    those of the run `origin`, if any.

    An existing one is never replaced unless `overwrite` is set. `oracle_scores`, where given, is
    copied as it is.

    It is made beside its place and moved there when all is well, so that a mistake in the settings
    costs no earlier run.
    """
    assert (origin is None) == (start is None), "weights to start from are those of a run"
    run = Run(Path(folder))
    inside = {"--data": data.folder} | ({} if origin is None else {"--from": origin.folder})
    check_place(run, overwrite=overwrite, inside=inside, instead="go on with --resume, ")
    data.verify_for_use()
    with replacing_folder(run.folder) as temporary:
        fill_run(Run(temporary), config, data)
        if origin is not None and start is not None:
            save_tensors(Run(temporary).start_file, start)
            note = {"run": str(origin.folder.resolve()), "weights": known_hash(origin.weights_file)}
            if (original := origin.original()) is not None:
                note |= noted_original(original)
            write_text(Run(temporary).origin_file, json.dumps(note, indent=1) + "\n")
        if oracle_scores is not None:
            shutil.copyfile(oracle_scores, Run(temporary).oracle_scores_file)
        Run(temporary).seal.make()
    return run


def check_place(run: Run, *, overwrite: bool, inside: Mapping[str, Path], instead: str = "") -> None:
    """Refuses a place for a new run that has something already, but for a run that may be
    overwritten, unless it has in it what one of the options `inside` names."""
    folder = run.folder
    if not folder.exists() or (folder.is_dir() and not any(folder.iterdir())):
        return
    if not overwrite:
        raise RunError(f"{folder} exists already; choose another --to, {instead}or replace it with --overwrite")
    if not run.config_file.exists():
        raise RunError(
            f"{folder} exists and is not a run directory, so --overwrite leaves it alone; choose another --to"
        )
    for option, place in inside.items():
        if place.resolve().is_relative_to(folder.resolve()):
            raise RunError(
                f"{option} {place} lies inside {folder}, which --overwrite would replace; choose another --to"
            )


def fill_run(run: Run, config: Config, data: PreparedData) -> None:
    """Writes what a run starts with, and tries whether a model of its shape can be made."""
    (run.folder / "checkpoints").mkdir()
    if data.is_joint:
        data.source_tokenizer.save(run.folder / "tokenizer.model")
    else:
        data.source_tokenizer.save(run.folder / "tokenizer.source.model")
        data.target_tokenizer.save(run.folder / "tokenizer.target.model")
    note_data(run, data)
    save_config(config, run.config_file)
    source, target = data.source_tokenizer, data.target_tokenizer
    check_memory(config.model, source_vocab=source.size, target_vocab=target.size, is_joint=data.is_joint)


def note_data(run: Run, data: PreparedData) -> None:
    """Writes where the run's data is and what it was."""
    note = {
        "folder": str(data.folder.resolve()),
        "fingerprint": data.fingerprint,
        "source_lang": data.source_lang,
        "target_lang": data.target_lang,
    }
    write_text(run.data_file, json.dumps(note, indent=1) + "\n")


def note_adoption(run: Run, original: Original, languages: tuple[str, str]) -> None:
    """Writes which folder an adopted run is from; what it was trained on is not known."""
    source_lang, target_lang = languages
    note = {"folder": "", "fingerprint": "", "source_lang": source_lang, "target_lang": target_lang}
    write_text(run.data_file, json.dumps({**note, **noted_original(original)}, indent=1) + "\n")


def noted_original(original: Original) -> dict[str, str]:
    """How a note names the folder that a model was adopted from."""
    return {ADOPTED: original.folder, ADOPTED_FILES: original.fingerprint}


def without_text(note: Mapping[str, str]) -> str:
    """Why there is no training text to compare with, given the note on a run's data."""
    if ADOPTED in note:
        return "the run was adopted, and what it was trained on is not known"
    return f"the training text is no longer at {note['folder']}"


def training_data(run: Run, folder: Path | None = None) -> PreparedData:
    """The prepared data of the run, at `folder` or where it was; it must still be what the run was
    made with."""
    note = run.data_note()
    if ADOPTED in note:
        raise RunError(
            f"{run.folder} was adopted and has no training data; prepare text in its vocabulary with `anydepth prepare "
            f"--tokenizer-from {run.folder}` and name that folder where the command has --data"
        )
    place = folder or Path(note["folder"])
    if folder is None and not place.exists():
        raise RunError(f"the data of {run.folder} is no longer at {place}; say where it is with --data")
    data = PreparedData.open(place)
    if data.fingerprint != note["fingerprint"]:
        raise RunError(
            f"{place} is not the data that {run.folder} was made with (its fingerprint differs); prepare that "
            "data again"
        )
    return data


def usable_data(run: Run, folder: Path | None, *, use: str) -> PreparedData:
    """The prepared data at `folder`, which must be of the run's languages and vocabulary, or the
    run's own where it is None.

    `use` is the word of the command line, such as "--from", that stands in error messages.
    """
    data = PreparedData.open(folder) if folder is not None else training_data(run)
    note = run.data_note()
    if (data.source_lang, data.target_lang) != (note["source_lang"], note["target_lang"]):
        languages = (
            f"{data.source_lang}-{data.target_lang}, but {run.folder} translates "
            f"{note['source_lang']}-{note['target_lang']}"
        )
        raise RunError(f"{data.folder} is {languages}; {use} keeps the languages")
    tokenizers = zip(run.tokenizers(), (data.source_tokenizer, data.target_tokenizer), strict=True)
    if any(own.fingerprint != other.fingerprint for own, other in tokenizers):
        raise RunError(
            f"{data.folder} has another vocabulary than {run.folder}; only text prepared with the run's tokenizer "
            f"can be used with {use}"
        )
    return data
