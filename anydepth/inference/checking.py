"""Every file of a run, of prepared data or of an export against its checksum."""

from pathlib import Path

from anydepth.errors import UsageError
from anydepth.inference.export import ctranslate2_folder as ctranslate2_export
from anydepth.inference.export import onnx_folder as export
from anydepth.runs.metrics import read_metrics
from anydepth.runs.run import Run
from anydepth.text import prepared


def check_folder(folder: Path) -> int:
    """How many files the folder has, all of which are as they were written; the first that is not
    is refused by name."""
    run = Run(folder)
    if run.seal.file.exists() or run.config_file.exists():
        names = run.seal.names()
        for name in names:
            run.seal.check(folder / name)
        return len(names) + len(read_metrics(run)[:1])
    if (folder / ctranslate2_export.CHECKSUMS_NAME).exists() or (folder / ctranslate2_export.WEIGHTS_FILE).exists():
        return ctranslate2_export.check_export(folder)
    if (folder / export.MANIFEST_NAME).exists() and any(folder.glob("*.onnx")):
        return len(export.checked_files(folder, "`anydepth export RUN --format onnx`").files)
    if (folder / prepared.MANIFEST_NAME).exists():
        data = prepared.PreparedData.open(folder)
        data.verify()
        return len(data.manifest.files)
    raise UsageError(f"{folder} is neither a run nor prepared data nor an export; name a folder that anydepth has made")
