"""What an earlier version made still loads, and does what it did: prepared data, runs of every
kind, exports, studies and measurements in tests/samples."""

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from cli.commands import done
from samples.arithmetic import arithmetic
from samples.make_samples import RESUMED, SCORED, STUDY, TAUGHT, TRANSLATED, TRANSLATIONS, count_of_files, norms

from anydepth.bench.bench_table import bench_table
from anydepth.bench.benchmark import Bench
from anydepth.figures.curves import read_points
from anydepth.files.checksums import file_hash
from anydepth.files.reading import checked
from anydepth.inference.export.ctranslate2_folder import search_options
from anydepth.inference.translator import Translator
from anydepth.runs.operating_points import PointSet, load_points
from anydepth.runs.run import Run
from anydepth.search.beam import SearchSettings
from anydepth.text.prepared import PreparedData

SAMPLES = Path(__file__).parent / "samples"
EXPECTED = SAMPLES / "expected"
TOLERANCE = 1e-4  # processors add in different orders
NUMBER = re.compile(r"[0-9]+(?:\.[0-9]+)?")
HALF, WHOLE = Path("studies/half"), Path("studies/whole")
ABSOLUTE = re.compile(rb"/(?:tmp|home|root|work|Users|mnt|var|opt)/")


def expected(name: str) -> Any:
    """What the version that made the samples did with them."""
    return json.loads((EXPECTED / f"{name}.json").read_text(encoding="utf-8"))


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """The samples were made on one thread, and sums are rounded as they are split."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="module")
def copied(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the samples, which tests only read."""
    return copy_to(tmp_path_factory.mktemp("samples") / "samples")


@pytest.fixture
def samples(copied: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory of a test that only reads: runs note the place of their data relative
    to it."""
    monkeypatch.chdir(copied)
    return copied


@pytest.fixture
def own_samples(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory of a test that writes."""
    folder = copy_to(tmp_path / "samples")
    monkeypatch.chdir(folder)
    return folder


def copy_to(folder: Path) -> Path:
    return Path(shutil.copytree(SAMPLES, folder, ignore=shutil.ignore_patterns("*.py", "__pycache__")))


def reference_lines(language: str) -> list[str]:
    return (SAMPLES / "text" / f"test.{language}").read_text(encoding="utf-8").splitlines()


@pytest.mark.parametrize(("kind", "is_joint"), [("joint", True), ("separate", False)])
def test_prepared_data_opens_with_the_text_that_it_was_made_of(samples: Path, kind: str, is_joint: bool) -> None:
    data = PreparedData.open(Path("data") / kind)
    data.verify()
    assert (data.is_joint, data.source_lang, data.target_lang) == (is_joint, "de", "en")
    assert {split: counts.pairs for split, counts in data.manifest.splits.items()} == {
        "train": 400,
        "valid": 9,
        "test": 12,
    }
    lines = reference_lines("de"), reference_lines("en")
    assert data.references("test") == lines
    pairs = data.pairs("test")
    for tokenizer, tokens, texts in zip(
        (data.source_tokenizer, data.target_tokenizer), (pairs.source, pairs.target), lines, strict=True
    ):
        assert [tokenizer.decode(tokens(number).tolist()) for number in range(len(texts))] == texts


@pytest.mark.parametrize("folder", expected("checks"))
def test_check_finds_as_many_whole_files_as_before(samples: Path, folder: str) -> None:
    assert count_of_files(done("check", folder).err) == expected("checks")[folder]


def test_every_translation_that_is_asked_for_was_made() -> None:
    made = [[case["run"], *case["options"]] for case in expected("translations")]
    assert made == TRANSLATIONS
    exits = {exit for case in expected("translations") for each in case["translations"] for exit in each["exits"]}
    assert exits == {1, 2, 3}  # else this shows little


@pytest.mark.parametrize("number", range(len(TRANSLATIONS)), ids=[" ".join(words) for words in TRANSLATIONS])
def test_a_run_translates_as_before_with_every_engine_and_policy(samples: Path, number: int) -> None:
    case = expected("translations")[number]
    lines = "".join(f"{line}\n" for line in reference_lines("de")[:TRANSLATED])
    out = done("translate", case["run"], *case["options"], "--json", stdin=lines.encode()).out
    found = [json.loads(line) for line in out.splitlines()]
    assert len(found) == TRANSLATED
    for now, before in zip(found, case["translations"], strict=True):
        assert now.keys() >= before.keys()
        for name, value in before.items():
            assert now[name] == (pytest.approx(value, abs=TOLERANCE) if "score" in name else value), name


def test_a_ctranslate2_export_gives_the_tokens_of_its_exit(samples: Path) -> None:
    ctranslate2 = pytest.importorskip("ctranslate2")
    translator = Translator.load(Path("runs/exits"), engine="torch")
    lines = reference_lines("de")[:TRANSLATED]
    by_itself = ctranslate2.Translator("runs/exits/export/ctranslate2-exit2", compute_type="float32", intra_threads=1)
    tokenizer = Run(Path("runs/exits")).tokenizers()[0]
    results = by_itself.translate_batch(
        [[*tokenizer.pieces(tokenizer.encode(line)), "</s>"] for line in lines],
        **search_options(SearchSettings(beam=1), limit=20),
    )
    ours = translator.translate(lines, policy="fixed:2", beam=1)
    assert [result.hypotheses[0] for result in results] == [each.tokens for each in ours]


def weights_are_as_before(name: str) -> None:
    """The run ends with the weights of before: bit for bit where sums are rounded as they were.

    The biases of keys have no gradient but what rounding leaves, since they move all scores of a
    softmax alike, and Adam makes steps of that; elsewhere they are not compared.
    """
    before, file = expected("trained")[name], Run(Path("runs") / name).weights_file
    if arithmetic() == expected("trained")["arithmetic"]:
        assert file_hash(file) == before["sha256"]
    now, then = (
        {tensor: norm for tensor, norm in each.items() if not tensor.endswith("key.bias")}
        for each in (norms(file.read_bytes()), before["norms"])
    )
    assert now == pytest.approx(then, rel=TOLERANCE, abs=TOLERANCE)


def test_an_interrupted_run_in_mixed_mode_is_resumed_to_the_same_weights(own_samples: Path) -> None:
    run = Run(Path("runs/stopped"))
    update = run.interrupted_at()
    assert update is not None and 20 <= update < 50
    assert [number for number, _ in run.checkpoints()] == [10, 20]
    done(*RESUMED)
    assert run.interrupted_at() is None
    weights_are_as_before("stopped")


def test_a_run_finds_its_data_where_it_has_moved_to(own_samples: Path, tmp_path: Path) -> None:
    Path("data").rename(tmp_path / "moved")
    moved = tmp_path / "moved" / "separate"
    update = Run(Path("runs/stopped")).interrupted_at()
    done("train", "--resume", "--to", "runs/stopped", "--data", moved, "--set", f"training.updates={update}")
    assert Run(Path("runs/stopped")).data_note()["folder"] == str(moved)
    assert Run(Path("runs/stopped")).interrupted_at() is None


def test_a_sequence_run_is_trained_again_from_the_scores_and_weights_that_it_keeps(own_samples: Path) -> None:
    done(*TAUGHT)
    weights_are_as_before("sequence")


def test_the_scores_of_every_exit_are_found_complete_and_learned_from(own_samples: Path) -> None:
    scores = Path("runs/aligned/exit_scores.safetensors").read_bytes()
    assert json.loads(done(*SCORED, "--json").out) == expected("scores")
    assert Path("runs/aligned/exit_scores.safetensors").read_bytes() == scores
    changes = ["exits.halting=sequence", "exits.oracle=bleu", "training.updates=1"]
    options = [word for change in changes for word in ("--set", change)]
    done("train", "--from", "runs/aligned", "--to", "runs/taught", *options)
    assert Path("runs/taught/oracle_scores.safetensors").read_bytes() == scores


def test_tuning_for_another_policy_keeps_the_points_that_were_tuned(own_samples: Path) -> None:
    def sets() -> list[PointSet]:
        return load_points(Run(Path("runs/exits")))

    before = sets()
    tuning = ["--candidates", 3, "--segment", 2, "--beam", 1, "--policy", "confidence"]
    done("tune", "runs/exits", "--valid", "text/test", *tuning)
    assert [each.policy for each in sets()] == ["geometric", "confidence"]
    assert sets()[:1] == before
    assert before[0].clock is None and before[0].objective == "average-exit", "points of before there were times"


def test_a_study_that_was_stopped_half_way_goes_on(own_samples: Path) -> None:
    plan = done("study", *STUDY, "--to", HALF, "--dry-run").out.splitlines()
    torch.set_num_threads(1)
    is_done = [line.startswith("done") for line in plan[1:]]
    assert is_done == [True, True, True, True, False, False], plan
    for step in ("look at words", "compare"):
        done("study-step", HALF, step)
    assert shown_words(HALF) == shown_words(WHOLE)
    assert verdicts(HALF) == verdicts(WHOLE)


def shown_words(study: Path) -> list[tuple[list[str], list[int]]]:
    """The tokens and exits of the sentences that a study shows."""
    record = json.loads((study / "records" / "tokens.json").read_text(encoding="utf-8"))
    return [(each["tokens"], each["exits"]) for each in record["samples"]]


def verdicts(study: Path) -> list[tuple[str, str]]:
    """The findings of a study, each with its verdict."""
    record = json.loads((study / "records" / "trends.json").read_text(encoding="utf-8"))
    return [(each["name"], each["verdict"]) for each in record["trends"]]


def table_figures(markdown: str) -> list[list[str]]:
    """The numbers of each row of the tables; the words around them may change."""
    rows = (NUMBER.findall(line) for line in markdown.splitlines() if line.startswith("|"))
    return [row for row in rows if row]


def test_the_report_of_a_study_has_the_figures_of_before(samples: Path, tmp_path: Path) -> None:
    done("report", "studies/whole", "--to", tmp_path / "page")
    before = table_figures((EXPECTED / "report.md").read_text(encoding="utf-8"))
    assert len(before) > 5
    assert table_figures((tmp_path / "page" / "report.md").read_text(encoding="utf-8")) == before


def test_an_evaluation_and_tuned_points_are_drawn(samples: Path, tmp_path: Path) -> None:
    files = [Path("measured/evaluation.json"), Path("runs/exits/operating_points.json")]
    evaluation, tuned = (json.loads(file.read_text(encoding="utf-8")) for file in files)
    stored = [(each["policy"], each["scores"]["bleu"]["value"]) for each in evaluation["results"]]
    stored += [(each["policy"], each["bleu"]) for each in tuned["sets"][0]["points"]]
    drawn = [(point.policy, point.bleu) for series in read_points(files) for point in series.points]
    assert sorted(drawn) == sorted(stored)
    done("plot", "tradeoff", *files, "--to", tmp_path / "tradeoff.svg")
    assert (tmp_path / "tradeoff.svg").stat().st_size > 1000


def test_a_benchmark_reads_as_what_a_benchmark_writes_now(samples: Path) -> None:
    values = json.loads(Path("measured/bench.json").read_text(encoding="utf-8"))
    bench = checked(Bench, values)
    assert {(each.system, each.is_full_depth) for each in bench.results} == {
        (system, is_full) for system in ("native", "torch") for is_full in (True, False)
    }
    assert f"{bench.results[0].average_exit:.2f}" in bench_table(bench)


def test_the_samples_are_small_and_tell_no_folder_of_the_machine_that_made_them() -> None:
    files = [file for file in SAMPLES.rglob("*") if file.is_file() and file.suffix not in (".py", ".pyc")]
    assert sum(file.stat().st_size for file in files) < 2_000_000
    assert [str(file) for file in files if ABSOLUTE.search(file.read_bytes())] == []
