"""A stranger's model folder, of which nothing is believed before it was looked at, and nothing is
executed."""

import hashlib
import struct
import zipfile
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from anydepth.errors import AdoptionError, CorpusError
from anydepth.files.checksums import known_hash
from anydepth.files.reading import MEDIUM, Unreadable, check_regular, json_of, read_bytes
from anydepth.text.marian import check_spm

SETTINGS = 2**20  # bytes of a file of settings; the largest that are known have a few thousand
WEIGHTS = "model.safetensors"
PICKLED_WEIGHTS = "pytorch_model.bin"
# All that makes a model what it is.
FILES = (
    *("config.json", "generation_config.json", "tokenizer_config.json", "added_tokens.json"),
    *("source.spm", "target.spm", "vocab.json", "target_vocab.json", WEIGHTS, PICKLED_WEIGHTS),
)
# Before this version torch.load(weights_only=True) could be made to execute code (CVE-2025-32434) or to
# write where it must not (CVE-2026-24747).
SAFE_TORCH = (2, 10)


class ModelFolder:
    """The files of a folder that transformers' `save_pretrained` wrote."""

    def __init__(self, path: Path) -> None:
        self.path = Path(path)
        if not self.path.is_dir():
            raise AdoptionError(f"{path} is not a folder; give one with config.json, as transformers saves a model")

    def has(self, name: str) -> bool:
        """Whether the folder has anything of that name."""
        return (self.path / name).exists() or (self.path / name).is_symlink()

    def place(self, name: str) -> Path:
        """The path of a regular file of the folder; what leads out of it is refused."""
        place = self.path / name
        if place.is_symlink() and not place.resolve().is_relative_to(self.path.resolve()):
            raise AdoptionError(
                f"{place} is a link that leads out of its folder; copy the folder with `cp -rL`, which follows links"
            )
        try:
            check_regular(place)
        except FileNotFoundError:
            raise AdoptionError(f"{self.path} has no {name}, which every MarianMT model has") from None
        except (OSError, Unreadable) as error:
            raise AdoptionError(f"{place} cannot be read: {_reason(error)}") from error
        return place

    def read(self, name: str, *, most: int) -> bytes:
        """The contents of a file of at most `most` bytes."""
        place = self.place(name)
        try:
            return read_bytes(place, most=most)
        except (OSError, Unreadable) as error:
            raise AdoptionError(f"{place} cannot be read: {_reason(error)}") from error

    def settings(self, name: str) -> dict[str, Any]:
        """The JSON object in a file of settings."""
        return self._object(name, most=SETTINGS)

    def optional_settings(self, name: str) -> dict[str, Any]:
        """The same, empty where there is no such file."""
        return self.settings(name) if self.has(name) else {}

    def vocabulary(self, name: str) -> dict[str, int]:
        """A vocabulary: pieces and their rows."""
        values = self._object(name, most=MEDIUM)
        bad = next((piece for piece, row in values.items() if type(row) is not int), None)
        if bad is not None:
            raise AdoptionError(f"{self.path / name} gives the piece {bad!r} no row but {values[bad]!r}")
        return values

    def spm(self, name: str) -> bytes:
        """A SentencePiece model."""
        data = self.read(name, most=MEDIUM)
        try:
            check_spm(data)
        except CorpusError as error:
            raise AdoptionError(f"{self.path / name} is not a SentencePiece model") from error
        return data

    def weights(self) -> tuple[dict[str, Tensor], str]:
        """The tensors of the model, and the name of the file that they are from."""
        if self.has(WEIGHTS):
            return self._safe_tensors(self.place(WEIGHTS)), WEIGHTS
        if self.has(PICKLED_WEIGHTS):
            return self._pickled_tensors(self.place(PICKLED_WEIGHTS)), PICKLED_WEIGHTS
        raise AdoptionError(f"{self.path} has neither {WEIGHTS} nor {PICKLED_WEIGHTS}, so there are no weights to take")

    def fingerprint(self) -> str:
        """What distinguishes the model from all others, wherever its folder is: the names and the
        contents of its files."""
        digest = hashlib.sha256()
        for name in FILES:
            if self.has(name):
                digest.update(f"{name} {known_hash(self.place(name))}\n".encode())
        return digest.hexdigest()

    def _object(self, name: str, *, most: int) -> dict[str, Any]:
        try:
            values = json_of(self.read(name, most=most))
        except Unreadable as error:
            raise AdoptionError(f"{self.path / name} cannot be read: {error}") from error
        if not isinstance(values, dict):
            raise AdoptionError(f"{self.path / name} is not a JSON object")
        return values

    def _safe_tensors(self, place: Path) -> dict[str, Tensor]:
        try:
            with safe_open(place, framework="pt") as file:
                return {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        except (SafetensorError, OSError, ValueError, struct.error) as error:
            raise AdoptionError(f"{place} is damaged or cut short ({_reason(error)})") from error

    def _pickled_tensors(self, place: Path) -> dict[str, Tensor]:
        """The tensors of a pickle, of which nothing but tensors is read."""
        if tuple(int(part) for part in torch.__version__.split(".")[:2]) < SAFE_TORCH:
            raise AdoptionError(
                f"{place} is a pickle, which only torch {'.'.join(map(str, SAFE_TORCH))} and later reads without "
                f"executing it, and this is torch {torch.__version__}; upgrade torch, or save {WEIGHTS}"
            )
        check_stored(place)
        try:
            values = torch.load(place, map_location="cpu", weights_only=True)
        except Exception as error:  # a hostile pickle may raise anything; whatever it is, it is refused
            raise AdoptionError(
                f"{place} is damaged, or has more in it than tensors, which is not executed here; save the model as "
                f"{WEIGHTS}"
            ) from error
        if not isinstance(values, dict) or not all(
            isinstance(name, str) and isinstance(value, Tensor) for name, value in values.items()
        ):
            raise AdoptionError(f"{place} holds something other than named tensors")
        return values


def check_stored(place: Path) -> None:
    """Refuses an archive that unpacks to more than it is: torch compresses nothing, and what does
    could fill the memory before a shape is looked at."""
    try:
        with zipfile.ZipFile(place) as archive:
            entries = archive.infolist()
    except (zipfile.BadZipFile, OSError, ValueError):
        return  # a plain pickle, or damaged, which torch finds out
    unpacked = sum(entry.file_size for entry in entries)
    if any(entry.compress_type != zipfile.ZIP_STORED for entry in entries) or unpacked > place.stat().st_size:
        raise AdoptionError(f"{place} is compressed, which torch never does; save the model as {WEIGHTS}")


def _reason(error: Exception) -> str:
    """What went wrong, in one line."""
    text = error.strerror or str(error) if isinstance(error, OSError) else str(error)
    return " ".join(text.split())
