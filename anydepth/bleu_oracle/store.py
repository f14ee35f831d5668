"""Scores of exits while they are made: parts that outlive a kill, and the file that they become."""

import shutil
from pathlib import Path

import torch

from anydepth.bleu_oracle.table import SPLITS, ExitScores, ScoreRecipe, ScoreTable, load_scores, save_scores
from anydepth.errors import RunError, UsageError
from anydepth.messages.say import Say
from anydepth.runs.run import Run


class ScoreStore:
    """The scores of one recipe that a run has so far, all of them and each part in files written
    whole or not at all."""

    def __init__(self, run: Run, recipe: ScoreRecipe, blocks: int) -> None:
        self.run, self.recipe, self.blocks = run, recipe, blocks
        nothing = ScoreTable(torch.zeros(0, dtype=torch.long), torch.zeros(0, blocks, dtype=torch.float64))
        self.tables = dict.fromkeys(SPLITS, nothing)
        self.nothing = nothing

    @property
    def parts_folder(self) -> Path:
        """Where parts wait for the others."""
        return self.run.folder / "exit_scores"

    def parts(self) -> list[Path]:
        """The files of the parts, oldest first."""
        return sorted(self.parts_folder.glob("part-*.safetensors"))

    def load_earlier(self, *, overwrite: bool, say: Say) -> None:
        """Takes in what an earlier call left.

        Scores of other weights or other text are useless and are replaced; those that were made in
        another way, with another metric or beam, are replaced only on demand.
        """
        finished = [self.run.scores_file] if self.run.seal.has(self.run.scores_file) else []
        for path in finished:
            self.run.seal.check(path)
        for path in [*finished, *self.parts()]:
            found = self._usable(path, overwrite=overwrite, say=say)
            if found is not None:
                self._add(found)
            elif path != self.run.scores_file:  # that one stays until another takes its place
                path.unlink()

    def add(self, split: str, table: ScoreTable) -> None:
        """Keeps a part, on disk when this returns."""
        self.parts_folder.mkdir(exist_ok=True)
        last = max((int(path.stem.removeprefix("part-")) for path in self.parts()), default=0)
        tables = dict.fromkeys(SPLITS, self.nothing) | {split: table}
        save_scores(self.parts_folder / f"part-{last + 1:06d}.safetensors", self.recipe, tables)
        self.tables[split] = self.tables[split].joined(table)

    def finish(self) -> ExitScores:
        """Makes one file of all parts, and returns what it holds."""
        save_scores(self.run.scores_file, self.recipe, self.tables)
        self.remove_parts()
        return self.scores

    def remove_parts(self) -> None:
        """Removes the parts; a kill between the last two steps of `finish` leaves some."""
        shutil.rmtree(self.parts_folder, ignore_errors=True)

    @property
    def scores(self) -> ExitScores:
        """All that is there."""
        return ExitScores(self.recipe, **self.tables)

    def _add(self, found: ExitScores) -> None:
        self.tables = {split: self.tables[split].joined(table) for split, table in found.tables.items()}

    def _usable(self, path: Path, *, overwrite: bool, say: Say) -> ExitScores | None:
        """The scores in a file if they are of the same recipe; else the reason is reported, or
        they are refused."""
        try:
            found = load_scores(path)
        except RunError as error:
            say(f"{error}; its sentences are decoded again")
            return None
        different = self.recipe.differs_in(found.recipe)
        if stale := [name for name in different if name in ("weights", "data")]:
            what = {"weights": "with other weights than the run has now", "data": "of other text"}[stale[0]]
            say(f"{path} has scores {what}; they are replaced")
            return None
        if different and not overwrite:
            name = different[0]
            raise UsageError(
                f"{path} has scores that were made another way ({name} = {getattr(found.recipe, name)}, now "
                f"{getattr(self.recipe, name)}); "
                "replace them with --overwrite"
            )
        return None if different else found
