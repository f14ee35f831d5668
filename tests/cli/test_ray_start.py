"""A Ray cluster that does not start in time: one sentence, whatever the verb."""

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from cli.commands import anydepth, assert_refused


def init(**options: Any) -> None:
    """What Ray does when a node takes longer than half a minute."""
    raise Exception("The current node timed out during startup. This could happen because some of the raylet failed.")


@pytest.mark.parametrize(
    "command",
    [
        ["bulk", "RUN", "TEXT", "--to", "NEW"],
        ["study", "table1", "--data", "DATA", "--to", "NEW", "--config", "CONFIG"],
        ["score-exits", "RUN", "--sentences", "3"],
    ],
    ids=lambda command: command[0],
)
def test_a_ray_cluster_that_does_not_start_in_time_is_one_sentence_and_exit_code_1(
    own_run: Path,
    text: Path,
    study_data: Path,
    study_settings: Path,
    tmp_path: Path,
    command: list[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "ray", SimpleNamespace(init=init))
    places = {"RUN": own_run, "TEXT": text / "test.de", "DATA": study_data, "CONFIG": study_settings}
    places["NEW"] = tmp_path / "new"
    outcome = anydepth(*(places.get(word, word) for word in command), "--on", "ray")
    assert_refused(outcome, "error: a Ray cluster cannot be started here: The current node timed out", code=1)
