"""The folder beside a run in which its parts are made, so that a killed command goes on from what is
finished."""

import json
import os
import shutil
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Literal

from anydepth.errors import AdoptionError
from anydepth.files.atomic import real_place, replacing_folder, write_text
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
    replaces: bool = False  # whether a run that is at its place is to be replaced: no other request for that

    def difference(self, other: "AdoptionRequest") -> str:
        """The options in which they differ, with the values of `other`; empty if they do not."""
        names = [each.name for each in fields(self) if each.name != "replaces"]
        differing = [name for name in names if getattr(self, name) != getattr(other, name)]
        return ", ".join(_option(name, getattr(other, name)) for name in differing)


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
            if not overwrite:
                self.go_on(request, stored, say)
                return
        with replacing_folder(self.folder) as temporary:
            write_request(temporary / self.request_file.name, replace(request, replaces=overwrite))

    def go_on(self, request: AdoptionRequest, stored: AdoptionRequest, say: Say) -> None:
        """Says what is gone on with, which another request than the `stored` one is refused; until
        training has begun, it may have other minutes."""
        compared = stored if self.run.config_file.exists() else replace(stored, minutes=request.minutes)
        if difference := request.difference(compared):
            raise AdoptionError(
                f"{self.folder} was begun with {difference}; give the same arguments to go on, or start anew with "
                "--overwrite"
            )
        if compared != stored:
            write_request(self.request_file, compared)
        say(f"going on from what is finished in {self.folder}")

    def replaces(self, request: AdoptionRequest) -> bool:
        """Whether it was begun by the same request, other minutes aside, to replace the run that is
        at its place."""
        if not self.request_file.exists():
            return False
        stored = self.request()
        return stored.replaces and not replace(request, minutes=stored.minutes).difference(stored)

    def finish(self) -> None:
        """Notes that the run is at its place now."""
        write_request(self.request_file, replace(self.request(), replaces=False))

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
        if not self.request_file.exists() or self.request().replaces or self.request().difference(request):
            return False
        if not self.original.config_file.exists() or not run.points_file.exists() or not run.origin_file.exists():
            return False
        note = json_of(run.seal.read(run.origin_file))
        return isinstance(note, dict) and note.get("weights") == known_hash(self.original.weights_file)


def write_request(file: Path, request: AdoptionRequest) -> None:
    """Writes a request, whole or not at all."""
    write_text(file, json.dumps(asdict(request), indent=1) + "\n")


def _option(name: str, value: object) -> str:
    """An option of the command with its value, or that there was none."""
    option = f"--{name.replace('_', '-')}"
    if value is None:
        return f"no {option}"
    return {"model": "another DIR", "text": "another --text"}.get(name, f"{option} {value}")
