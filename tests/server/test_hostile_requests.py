"""Requests that are made up from our own OpenAPI document, and against it: nothing fails, nothing
hangs."""

import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from server.serving import serving

EXAMPLES = 3500  # for each route that takes anything, beside the cases that the document has itself
LEAST_CASES = 10_000
LIMITS = ["--requests-per-minute", 0, "--characters", 500]


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_made_up_requests_are_answered_as_the_document_says(runs: list[Path], tmp_path: Path) -> None:
    if find_spec("schemathesis") is None:
        pytest.skip("NOT TESTED: there is no schemathesis to make up requests; pip install schemathesis")
    with serving(*runs, *LIMITS) as server:
        command = ["run", f"{server.url}/spec", "--max-examples", EXAMPLES, "--phases", "coverage,fuzzing"]
        checks = "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance"
        options = ["--checks", checks, "--continue-on-failure", "--request-timeout", 30, "--no-color", "--seed", 1]
        finished = subprocess.run(
            [sys.executable, "-m", "schemathesis.cli", *map(str, [*command, *options])],
            capture_output=True,
            text=True,
            cwd=tmp_path,
        )
        assert server.process.poll() is None, "the server is still there"
    said = finished.stdout
    assert finished.returncode == 0, said[-5000:]
    cases = re.search(r"([0-9,]+) generated", said)
    assert cases is not None and int(cases[1].replace(",", "")) >= LEAST_CASES, said[-2000:]
    assert not any('"status": 500' in line for line in server.log)
