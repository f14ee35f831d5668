"""The folder beside a run in which its parts are made, so that a killed command goes on from what is
finished."""

import json
import os
import shutil
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

from anydepth.errors import AdoptionError
from anydepth.files.atomic import real_place, write_text
from anydepth.files.checksums import known_hash
from anydepth.files.reading import Unreadable, checked, json_of
from anydepth.messages.say import Say
from anydepth.runs.run import Run

Trunk = Literal["trained", "frozen"]


@dataclass(frozen=True)
class AdoptionRequest:
    """What was asked for, by which finished work is known to be that of the same command: the model
    and the text by their fingerprints."""

    model: str
    text: str
    minutes: float
    trunk: Trunk
    source_lang: str | None
    target_lang: str | None

    def difference(self, other: "AdoptionRequest") -> str:
        """The options in which they differ, with the values of `other`; empty if they do not."""
        words = {"model": "another DIR", "text": "another --text"}
        return ", ".join(
            words.get(name, f"--{name.replace('_', '-')} {value}")
            for name, value in asdict(other).items()
            if value != getattr(self, name)
        )


@dataclass(frozen=True)
class WorkFolder:
    """The places of what is made on the way to a run."""

    folder: Path

    @classmethod
    def beside(cls, to: Path) -> "WorkFolder":
        """The work folder of the run at `to`."""
        place = real_place(to)
        return cls(place.with_name(f"{place.name}.work"))

    @property
    def request_file(self) -> Path:
        return self.folder / "request.json"

    @property
    def original(self) -> Run:
        """The model as it was adopted, at full depth."""
        return Run(self.folder / "original")

    @property
    def parts(self) -> Path:
        """Its translations, part by part."""
        return self.folder / "parts"

    @property
    def text(self) -> Path:
        """Sources and translations as text: train, valid, and of valid what is tuned on."""
        return self.folder / "text"

    @property
    def data(self) -> Path:
        """The same, prepared."""
        return self.folder / "data"

    @property
    def run(self) -> Run:
        """The run with exits, until it is finished."""
        return Run(self.folder / "run")

    def begin(self, request: AdoptionRequest, *, overwrite: bool, inside: Mapping[str, Path], say: Say) -> None:
        """Makes the folder, or goes on with what the same request left; that of another one is
        refused, or removed with `overwrite`, unless it has in it what one of the options `inside`
        names."""
        for option, place in inside.items():
            if place.resolve().is_relative_to(self.folder):
                raise AdoptionError(
                    f"{option} {place} lies inside {self.folder}, where the run is made; choose another --to"
                )
        if self.folder.exists() and any(self.folder.iterdir()):
            stored = self.request()
            if not overwrite and (difference := request.difference(stored)):
                raise AdoptionError(
                    f"{self.folder} was begun with {difference}; give the same arguments to go on, or start anew with "
                    "--overwrite"
                )
            if not overwrite:
                say(f"going on from what is finished in {self.folder}")
                return
            self.remove()
        self.folder.mkdir(parents=True, exist_ok=True)
        write_text(self.request_file, json.dumps(asdict(request), indent=1) + "\n")

    def request(self) -> AdoptionRequest:
        """The request that the folder was begun with."""
        try:
            return checked(AdoptionRequest, json_of(self.request_file.read_bytes()))
        except (OSError, Unreadable) as error:
            raise AdoptionError(
                f"{self.folder} exists and is no work of `anydepth adopt`, so it is left alone; choose another --to, "
                "or move it away"
            ) from error

    def remove(self) -> None:
        """Removes the folder; it is renamed first, so that what is half removed is nobody's."""
        gone = self.folder.with_name(f".{self.folder.name}.old")
        shutil.rmtree(gone, ignore_errors=True)
        os.replace(self.folder, gone)
        shutil.rmtree(gone, ignore_errors=True)

    def made(self, run: Run, request: AdoptionRequest) -> bool:
        """Whether `run` is what this folder was begun for, finished."""
        if not self.request_file.exists() or self.request().difference(request):
            return False
        if not self.original.config_file.exists() or not run.points_file.exists() or not run.origin_file.exists():
            return False
        note = json_of(run.seal.read(run.origin_file))
        return isinstance(note, dict) and note.get("weights") == known_hash(self.original.weights_file)
