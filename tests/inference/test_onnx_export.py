"""Exports to ONNX: enough to translate with, whole and up to date, or refused."""

import json
import shutil
import sys
from pathlib import Path

import onnx
import pytest
import sentencepiece
import torch
from export_alone import read_thresholds, translate_alone
from tiny import prepare_tiny, tiny_config, tiny_model
from walks import spread_exits

from anydepth.errors import RunError, UsageError
from anydepth.exits.parsing import parse_policy
from anydepth.files.checksums import with_checksum
from anydepth.inference.engines.engine import Engine
from anydepth.inference.engines.onnx.onnx_engine import OnnxEngine
from anydepth.inference.engines.onnx.onnx_model import load_onnx
from anydepth.inference.engines.onnx.sessions import open_programs
from anydepth.inference.engines.torch_engine import TorchEngine
from anydepth.inference.export.onnx_folder import describe_export, export_folder, export_onnx, write_graphs
from anydepth.inference.translator import Translator
from anydepth.model.checkpoint import model_tensors, save_tensors
from anydepth.runs.models import load_model, new_model
from anydepth.runs.operating_points import OperatingPoint, PointSet, save_points
from anydepth.runs.run import Run, create_run
from anydepth.search.beam import search
from anydepth.search.decoding import SearchSettings
from anydepth.text.batches import make_source
from anydepth.text.tokenizer import EOS

GREEDY = SearchSettings(beam=1, length_ratio=2.0, length_offset=7)
GEOMETRIC_POINTS = ("geometric:0.6,0.4,0.5", "geometric:0.5", "geometric:0.5,1,0", "geometric:1,0.6,0.5")


def points(*policies: str) -> PointSet:
    """Made-up operating points of the halting module."""
    found = tuple(OperatingPoint(policy, bleu=30.0, average_exit=2.0, flops_share=0.5) for policy in policies)
    return PointSet("geometric", "replay", 10, 1, 1, 1.0, "valid", "fingerprint", 5, 31.0, found)


def halting_run(folder: Path, *changes: str, seed: int = 9) -> Run:
    """A run with random weights and operating points; with this seed all exits occur, and sentences
    that end before their limit."""
    run = create_run(folder / "run", tiny_config("exits.halting=geometric", *changes), prepare_tiny(folder))
    torch.manual_seed(seed)
    model = new_model(run)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim == 1:
                parameter.add_(torch.randn_like(parameter), alpha=0.3)
        for classifier in {model.classifier(n) for n in model.config.classifier_exits}:
            classifier *= 3
            classifier[EOS] *= 2
        spread_exits(model)
    save_tensors(run.weights_file, model_tensors(model))
    save_points(run, points(*GEOMETRIC_POINTS))
    return run


@pytest.mark.parametrize("int8", [False, True])
@pytest.mark.parametrize("changes", [["exits.halting_units=9"], ["model.classifiers=shared"]])
def test_the_files_of_an_export_are_enough_to_translate_as_the_plain_step_does(
    changes: list[str], int8: bool, tmp_path: Path
) -> None:
    """`export_alone` has no code of anydepth; with int8 its pattern is the search over the same
    graphs."""
    run = halting_run(tmp_path, *changes)
    folder = Path(shutil.copytree(export_onnx(run, int8=int8, say=lambda line: None), tmp_path / "elsewhere"))
    tokenizer = sentencepiece.SentencePieceProcessor(model_file=str(folder / "tokenizer.source.model"))
    sources = [[*tokenizer.encode(f" {line}"), EOS] for line in ("der hund", "die katze schläft heute gern", "und")]
    assert sources[0] == [*run.tokenizers()[0].encode("der hund"), EOS]
    model = load_onnx(run, int8=True, threads=1) if int8 else load_model(run)
    found = []
    for number, policy in enumerate(GEOMETRIC_POINTS):
        for source in sources:
            [[expected]] = search(model, *make_source([source[:-1]]), parse_policy(policy, model), GREEDY)
            limit = int(GREEDY.limits(torch.ones(1, len(source), dtype=torch.bool), max_length=256))
            tokens, exits = translate_alone(folder, source, read_thresholds(folder, number=number), limit=limit)
            assert (tokens, exits) == (expected.tokens, expected.exits)
            found.append((tokens, exits))
    assert {n for _, exits in found for n in exits} == {1, 2, 3, 4}
    assert all(tokens[-1] == EOS for tokens, _ in found)
    assert len({len(tokens) for tokens, _ in found}) > 2
    assert any(exits != sorted(exits, reverse=True) for _, exits in found), "no token met copied states"


def test_an_export_has_the_operating_points_of_its_weights_only(tmp_path: Path) -> None:
    run = halting_run(tmp_path)
    folder = export_onnx(run, int8=False, say=lambda line: None)
    assert (folder / "operating_points.json").read_bytes() == run.points_file.read_bytes()
    assert "operating_points.json" in json.loads((folder / "manifest.json").read_text(encoding="utf-8"))["files"]
    assert "There is no operating_points.json" not in (folder / "README.txt").read_text(encoding="utf-8")
    save_tensors(run.weights_file, {name: tensor + 1 for name, tensor in model_tensors(load_model(run)).items()})
    folder = export_onnx(run, int8=False, say=lambda line: None)
    assert not (folder / "operating_points.json").exists()
    assert "There is no operating_points.json: `anydepth tune` finds" in (folder / "README.txt").read_text(
        encoding="utf-8"
    )


@pytest.mark.parametrize("kind", ["geometric", "multinomial", "sequence", "none"])
def test_the_description_tells_what_the_halting_graph_takes_and_gives(kind: str, tmp_path: Path) -> None:
    model = tiny_model(f"exits.halting={kind}")
    description = describe_export(model, int8=False, has_points=False)
    if model.halting is None:
        assert "There is no halting.onnx" in description
        return
    (entry,) = (line for line in description.splitlines() if line.startswith("halting.onnx"))
    graph = onnx.load(write_graphs(model, tmp_path, int8=False)["halting"]).graph
    words = entry.replace(",", " ").split()
    for side, values in ((words[: words.index("->")], graph.input), (words[words.index("->") :], graph.output)):
        assert {value.name for value in values} <= set(side)
    axes = [axis.dim_param or str(axis.dim_value) for axis in graph.output[0].type.tensor_type.shape.dim]
    assert entry.endswith(f"{graph.output[0].name} [{', '.join(axes)}]")


@pytest.fixture(scope="module")
def run_template(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A run with random weights, exported in both precisions."""
    folder = tmp_path_factory.mktemp("onnx")
    run = create_run(folder / "run", tiny_config(), prepare_tiny(folder))
    torch.manual_seed(5)
    save_tensors(run.weights_file, model_tensors(new_model(run)))
    for int8 in (False, True):
        export_onnx(run, int8=int8, say=lambda line: None)
    return run


@pytest.fixture
def run(run_template: Run, tmp_path: Path) -> Run:
    """A copy of the run that a test may spoil."""
    return Run(Path(shutil.copytree(run_template.folder, tmp_path / "run")))


def test_an_export_translates_as_the_run_does(run: Run) -> None:
    lines = ["der hund", "die katze schläft heute", "", "und"]
    translator = Translator.load(run.folder)
    model = load_onnx(run, int8=False)
    engine = OnnxEngine(model)
    assert isinstance(engine, Engine) and engine.name == "onnx" and TorchEngine(model).name == "torch"
    fast = Translator(model, *run.tokenizers(), run.config.decoding, run=run, engine=engine)
    for policy in ("uniform:3", "confidence:0.01"):
        plain, quick = translator.translate(lines, policy=policy), fast.translate(lines, policy=policy)
        assert [(each.tokens, each.exits) for each in plain] == [(each.tokens, each.exits) for each in quick]
    assert OnnxEngine(load_onnx(run, int8=True, threads=1)).name == "onnx-int8"


def test_exporting_says_where_and_how_much_and_replaces_what_was_there(run: Run) -> None:
    said: list[str] = []
    (export_folder(run, int8=True) / "stray.txt").write_text("old", encoding="utf-8")
    folder = export_onnx(run, int8=True, say=said.append)
    assert folder == run.folder / "export" / "onnx-int8"
    assert not (folder / "stray.txt").exists()
    assert said[0].startswith(f"{folder}: 18 ONNX graphs, int8, ")
    manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
    assert (manifest["format"], manifest["opset"], manifest["precision"]) == (2, 17, "int8")
    assert {file.name for file in folder.iterdir()} == {*manifest["files"], "manifest.json"}
    description = (folder / "README.txt").read_text(encoding="utf-8")
    for name in manifest["files"]:
        assert name == "README.txt" or Path(name).stem.partition(".")[0].rstrip("0123456789") in description


def test_the_description_names_every_input_and_output_of_every_graph(run: Run) -> None:
    folder = export_folder(run, int8=False)
    words = set((folder / "README.txt").read_text(encoding="utf-8").replace(",", " ").split())
    for file in folder.glob("*.onnx"):
        graph = onnx.load(file).graph
        assert {value.name for value in [*graph.input, *graph.output]} <= words, file.name


def test_a_run_without_an_export_says_how_to_make_one(run: Run) -> None:
    for int8, ending in ((False, "onnx`"), (True, "onnx --int8`")):
        (export_folder(run, int8=int8) / "manifest.json").unlink()
        with pytest.raises(
            RunError, match=rf"has no (int8 )?ONNX export; make it with `anydepth export .*run --format {ending}"
        ):
            load_onnx(run, int8=int8)


def test_a_damaged_or_missing_file_of_an_export_is_refused_by_name(run: Run) -> None:
    file = export_folder(run, int8=False) / "block2.onnx"
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)
    with pytest.raises(
        RunError, match=r"block2.onnx is damaged \(its checksum differs\); export again with `anydepth export"
    ):
        load_onnx(run, int8=False)
    file.unlink()
    with pytest.raises(RunError, match=r"block2.onnx is missing; export again"):
        load_onnx(run, int8=False)


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("{", "cannot be read"),
        ("[]", "cannot be read"),
        ("{}", "cannot be read \\(it has no checksum\\)"),
        (json.dumps(with_checksum({})), "is not a manifest of this version"),
        (json.dumps(with_checksum({"format": 7})), "format 7, not 2"),
        (json.dumps(with_checksum({"format": 2})), r"cannot be read \(precision: field required\)"),
    ],
    ids=["cut", "a list", "no checksum", "nothing", "another format", "no precision"],
)
def test_a_damaged_manifest_is_refused_by_name(run: Run, content: str, problem: str) -> None:
    (export_folder(run, int8=False) / "manifest.json").write_text(content, encoding="utf-8")
    with pytest.raises(RunError, match=rf"manifest.json .*{problem}.*export again with"):
        load_onnx(run, int8=False)


def test_an_export_in_the_place_of_the_other_precision_is_refused(run: Run) -> None:
    plain, small = (export_folder(run, int8=int8) for int8 in (False, True))
    shutil.rmtree(small)
    plain.rename(small)
    with pytest.raises(
        RunError, match=r"onnx-int8 holds an export in float32, not in int8; export again with `anydepth export"
    ):
        load_onnx(run, int8=True)


def test_a_manifest_with_a_changed_checksum_of_a_file_is_refused(run: Run) -> None:
    manifest = export_folder(run, int8=False) / "manifest.json"
    text = manifest.read_text(encoding="utf-8")
    manifest.write_text(text.replace('"opset": 17', '"opset": 18'), encoding="utf-8")
    with pytest.raises(RunError, match=r"manifest\.json cannot be read \(its checksum differs\); export again"):
        load_onnx(run, int8=False)


def test_an_export_of_other_weights_is_refused(run: Run) -> None:
    save_tensors(run.weights_file, {name: tensor + 1 for name, tensor in model_tensors(load_model(run)).items()})
    with pytest.raises(
        RunError, match=r"onnx was exported from other weights than .*run has now; export again with `anydepth export"
    ):
        load_onnx(run, int8=False)


def test_a_graph_that_onnx_runtime_cannot_open_is_named(tmp_path: Path) -> None:
    (tmp_path / "encoder.onnx").write_bytes(b"nothing")
    with pytest.raises(RunError, match=r"ONNX Runtime [0-9.]+ cannot open .*encoder.onnx"):
        open_programs({"encoder": tmp_path / "encoder.onnx"}, threads=1)


def test_missing_packages_are_named_with_their_cure(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(
        UsageError, match=r"not installed \(onnxruntime\); install them with: pip install 'anydepth\[onnx\]'"
    ):
        load_onnx(run, int8=False)
    monkeypatch.setitem(sys.modules, "onnx", None)
    monkeypatch.delitem(sys.modules, "anydepth.inference.export.onnx_graphs", raising=False)
    with pytest.raises(UsageError, match=r"not installed \(onnx\); install them with: pip install 'anydepth\[onnx\]'"):
        export_onnx(run, int8=False, say=lambda line: None)
