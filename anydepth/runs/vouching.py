"""A person's word for a run whose seal is missing, or no longer fits: its files are checked as far
as they can be, and sealed."""

from pathlib import Path

from anydepth.config.loading import load_config
from anydepth.errors import RunError, UsageError
from anydepth.exits.adaptive import AdaptiveTransformer
from anydepth.files.atomic import write_bytes
from anydepth.files.locks import one_writer
from anydepth.files.reading import checked, read_json
from anydepth.model.checkpoint import fill_model, own_tensors
from anydepth.runs.checked_vocabulary import CheckedVocabulary
from anydepth.runs.metrics import sealable_metrics
from anydepth.runs.operating_points import StoredPoints
from anydepth.runs.run import Run
from anydepth.text.marian import load_tokenizer


def seal_run(folder: Path) -> tuple[list[str], int]:
    """Seals the run at `folder` with the files that it has now; their names, and how many lines of
    its metrics could not be kept.

    The settings, tokenizers and notes must be readable, all tensors whole by their own checksums,
    and the weights must fit the settings.
    """
    run = Run(Path(folder))
    if not run.config_file.exists():
        raise RunError(f"{run.folder} is not a run directory: it has no config.toml; make one with `anydepth train`")
    with one_writer(run.folder):
        check_files(run)
        lost = 0
        if run.metrics_file.exists():
            metrics, lost = sealable_metrics(run.metrics_file.read_bytes())
            write_bytes(run.metrics_file, metrics)
        return run.seal.make(), lost


def check_files(run: Run) -> None:
    """Refuses a run with a file that cannot be used, whoever vouches for it."""
    config = load_config(run.config_file)
    joint = run.folder / "tokenizer.model"
    sides = [joint] if joint.exists() else [run.folder / f"tokenizer.{side}.model" for side in ("source", "target")]
    source, target = (load_tokenizer(file) for file in (sides[0], sides[-1]))
    for file in sorted([*run.folder.glob("*.safetensors"), *(run.folder / "checkpoints").glob("*.safetensors")]):
        tensors, _ = own_tensors(file)
        if file == run.weights_file:
            model = AdaptiveTransformer(
                config, source_vocab=source.size, target_vocab=target.size, is_joint=joint.exists()
            )
            fill_model(model, tensors, file)
    kinds = {run.points_file: StoredPoints, run.vocabulary_file: CheckedVocabulary}
    for file in sorted(run.folder.glob("*.json")):
        if file != run.seal.file:
            _check_json(file, kinds.get(file, dict))


def _check_json(file: Path, kind: type) -> None:
    try:
        checked(kind, read_json(file))
    except (ValueError, UsageError) as error:
        raise RunError(f"{file} cannot be read ({error}); restore it from a copy, or remove it") from error
