"""Where the parts of a study are."""

from pathlib import Path


class StudyFolder:
    """The files and folders of the study at `path`. A report needs study.json and records/
    alone."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.study_file = path / "study.json"
        self.config_file = path / "config.toml"
        self.records = path / "records"
        self.trends_file = self.records / "trends.json"
        self.comparisons_file = self.records / "comparisons.json"
        self.tokens_file = self.records / "tokens.json"
        self.positions_file = self.records / "positions.json"
        self.scores_file = self.records / "scores.json"
        self.cost_file = self.records / "cost.json"
        self.race_file = self.records / "race.json"
        self.statistics = path / "statistics"
        self.logs = path / "logs"
        self.steps = path / "steps"
        self.distilled = path / "distilled"
        self.held_out = path / "held_out" / "valid"  # the PREFIX of what a race chooses on
        self.common_words_file = path / "held_out" / "words.json"  # what all runs of a race choose among

    def run(self, name: str) -> Path:
        """The run directory of that name."""
        return self.path / "runs" / name

    def run_record(self, run: str) -> Path:
        """The measurements of a run."""
        return self.records / "runs" / f"{run}.json"

    def run_records(self) -> list[Path]:
        """The measurements of all runs that were measured."""
        return sorted((self.records / "runs").glob("*.json"))

    def heat_record(self, heat: str) -> Path:
        """The figures of one heat of the race."""
        return self.records / "race" / f"{heat}.json"

    def heat_records(self) -> list[Path]:
        """The figures of all heats that were run."""
        return sorted((self.records / "race").glob("*.json"))

    def run_statistics(self, run: str) -> Path:
        """What BLEU counts in each sentence that a run translated."""
        return self.statistics / f"{run}.safetensors"

    @property
    def word_statistics(self) -> Path:
        """The sums over each sentence's words where these were looked at."""
        return self.statistics / "look-at-words.safetensors"
