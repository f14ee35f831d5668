"""The model in ONNX Runtime: same tokens and exits as the plain step, and exports that are whole
and up to date or refused."""

import json
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

import onnx
import pytest
import sentencepiece
import torch
from export_alone import read_thresholds, translate_alone
from tiny import DIM, SOURCE_VOCAB, TARGET_VOCAB, prepare_tiny, random_exits, tiny_config, tiny_model
from torch import Tensor
from walks import POLICIES, model_for, spread_exits

from anydepth.errors import RunError, UsageError
from anydepth.exits.adaptive import AdaptiveTransformer
from anydepth.exits.halting import GeometricHalting, MultinomialHalting, SequenceHalting
from anydepth.exits.parsing import parse_policy
from anydepth.exits.policies import ForcedExits, Policy, UniformExit
from anydepth.files.checksums import with_checksum
from anydepth.inference.engines.engine import Engine
from anydepth.inference.engines.onnx.onnx_engine import OnnxEngine
from anydepth.inference.engines.onnx.onnx_model import OnnxTransformer, load_onnx
from anydepth.inference.engines.onnx.sessions import open_programs
from anydepth.inference.engines.torch_engine import TorchEngine
from anydepth.inference.export.onnx_folder import describe_export, export_folder, export_onnx, write_graphs
from anydepth.inference.translator import Translator
from anydepth.model.checkpoint import model_tensors, save_tensors
from anydepth.runs.models import load_model, new_model
from anydepth.runs.operating_points import OperatingPoint, PointSet, save_points
from anydepth.runs.run import Run, create_run
from anydepth.search.beam import Hypothesis, search
from anydepth.search.decoding import SearchSettings
from anydepth.text.batches import make_source
from anydepth.text.tokenizer import EOS

SETTINGS = {
    beam: SearchSettings(beam=beam, best=beam, length_ratio=2.0, length_offset=7) for beam in (1, 5)
}  # up to 21 tokens
GEOMETRIC_POINTS = ("geometric:0.6,0.4,0.5", "geometric:0.5", "geometric:0.5,1,0", "geometric:1,0.6,0.5")


def in_onnx(model: AdaptiveTransformer, folder: Path, *, int8: bool = False) -> OnnxTransformer:
    """`model` on graphs written to `folder`."""
    return OnnxTransformer(model, open_programs(write_graphs(model, folder, int8=int8), threads=1), name="onnx")


def sentences(count: int, vocab: int = SOURCE_VOCAB) -> tuple[Tensor, Tensor]:
    """Random sources of 1 to 7 tokens with their ends."""
    generator = torch.Generator().manual_seed(count)
    lengths = torch.randint(0, 7, (count,), generator=generator).tolist()
    return make_source([torch.randint(4, vocab, (length,), generator=generator).tolist() for length in lengths])


def words_and_exits(found: Sequence[Sequence[Hypothesis]]) -> list[list[tuple[list[int], list[int]]]]:
    return [[(each.tokens, each.exits) for each in hypotheses] for hypotheses in found]


def assert_same_search(
    model: AdaptiveTransformer, fast: OnnxTransformer, policy: str | Policy, count: int, beam: int
) -> None:
    """Tokens and exits of every hypothesis are equal, and scores nearly."""
    source, mask = sentences(count, model.source_embedding.num_embeddings)
    policies = [parse_policy(policy, each) if isinstance(policy, str) else policy for each in (model, fast)]
    plain, quick = (
        search(each, source, mask, chosen, SETTINGS[beam]) for each, chosen in zip((model, fast), policies, strict=True)
    )
    assert words_and_exits(plain) == words_and_exits(quick)
    scores = [[hypothesis.score for hypotheses in found for hypothesis in hypotheses] for found in (plain, quick)]
    assert scores[0] == pytest.approx(scores[1], abs=1e-4)


@pytest.mark.parametrize("policy", [*POLICIES, "geometric:0.5", "fixed:1"])
def test_tokens_and_exits_are_those_of_the_plain_step_for_every_policy(policy: str, tmp_path: Path) -> None:
    model = model_for(policy, *(["exits.halting_units=9"] if policy == "geometric:0.5" else []))
    fast = in_onnx(model, tmp_path)
    for count in (1, 7, 64):
        for beam in (1, 5):
            assert_same_search(model, fast, policy, count, beam)


@pytest.mark.parametrize("beam", [1, 5])
def test_tokens_and_exits_are_those_of_the_plain_step_for_forced_exits(beam: int, tmp_path: Path) -> None:
    model = model_for("fixed:3")
    fast = in_onnx(model, tmp_path)
    for count in (1, 7, 64):
        assert_same_search(model, fast, ForcedExits(random_exits(count, 30, seed=count)), count, beam)


@pytest.mark.parametrize(
    "changes", [["model.classifiers=shared"], ["model.classifiers=tied"], ["model.encoder.dim=12", "model.heads=2"]]
)
def test_tokens_and_exits_are_those_of_the_plain_step_for_other_shapes(changes: list[str], tmp_path: Path) -> None:
    model = model_for("confidence:0.7,0.5,0.6", *changes)
    fast = in_onnx(model, tmp_path)
    for policy in ("uniform:7", "confidence:0.7,0.5,0.6"):
        assert_same_search(model, fast, policy, 7, 5)
    assert (tmp_path / "classifier1.onnx").exists() == (model.config.classifiers == "untied")


def test_a_joint_vocabulary_with_tied_embeddings_is_exported_too(tmp_path: Path) -> None:
    model = tiny_model("model.classifiers=tied", f"model.encoder.dim={DIM}", is_joint=True)
    assert_same_search(model, in_onnx(model, tmp_path), "uniform:7", 7, 5)


def test_a_model_with_one_exit_only_is_exported_too(tmp_path: Path) -> None:
    model = tiny_model("model.exits=last")
    assert_same_search(model, in_onnx(model, tmp_path), "fixed:4", 7, 5)


def test_deferred_keys_and_values_leave_states_as_they_are_for_any_exits(tmp_path: Path) -> None:
    """Rows come back to deep blocks after different numbers of shallow tokens, and beyond the first
    growth of the cache."""
    model = tiny_model()
    fast = in_onnx(model, tmp_path)
    source, mask = sentences(5)
    exits = random_exits(5, 40, seed=3)
    exits[:, 3:20] = 1  # a long pause, then all blocks at once
    tokens = torch.randint(4, TARGET_VOCAB, (5, 40), generator=torch.Generator().manual_seed(4))
    with torch.inference_mode():
        caches = [each.start_cache(each.encode(source, mask), mask) for each in (model, fast)]
        for t in range(40):
            states = [
                each.step(tokens[:, t], cache, exits[:, t], lambda n, hidden, planned: planned)
                for each, cache in zip((model, fast), caches, strict=True)
            ]
            torch.testing.assert_close(states[0][0], states[1][0], atol=1e-4, rtol=1e-4)
            assert torch.equal(states[0][1], states[1][1])


def test_int8_logits_are_close_to_those_of_the_model(tmp_path: Path) -> None:
    model = tiny_model("model.encoder.dim=64", "model.decoder.dim=48", "model.decoder.ffn_dim=96")
    small = in_onnx(model, tmp_path, int8=True)
    source, mask = sentences(7)
    hidden, exits = torch.randn(6, 48, generator=torch.Generator().manual_seed(1)), random_exits(6, seed=1)
    with torch.inference_mode():
        for exact, rounded in (
            (model.encode(source, mask)[mask], small.encode(source, mask)[mask]),
            (model.exit_logits(hidden, exits), small.exit_logits(hidden, exits)),
        ):
            error = (exact - rounded).norm() / exact.norm()
            assert 0 < error < 0.05


@pytest.mark.parametrize("beam", [1, 5])
def test_an_int8_translation_does_not_depend_on_the_sentences_beside_it(beam: int, tmp_path: Path) -> None:
    model = tiny_model()
    small, policy = in_onnx(model, tmp_path, int8=True), UniformExit(7, model.blocks)
    source, mask = sentences(7)
    together = search(small, source, mask, policy, SETTINGS[beam])
    alone = [search(small, source[[i]], mask[[i]], policy, SETTINGS[beam])[0] for i in range(len(source))]
    assert words_and_exits(together) == words_and_exits(alone)


@pytest.mark.parametrize("int8", [False, True])
@pytest.mark.parametrize("units", [0, 9])
def test_the_halting_graph_gives_the_probability_of_stopping(units: int, int8: bool, tmp_path: Path) -> None:
    model = model_for("geometric:0.5", f"exits.halting_units={units}")
    assert isinstance(model.halting, GeometricHalting)
    hidden = torch.randn(7, DIM, generator=torch.Generator().manual_seed(1)) * torch.logspace(-2, 3, 7)[:, None]
    (probability,) = in_onnx(model, tmp_path, int8=int8).programs["halting"](states=hidden.numpy())
    with torch.inference_mode():
        expected = model.halting.halt_logits(hidden).sigmoid()
    torch.testing.assert_close(torch.from_numpy(probability), expected, atol=1e-6, rtol=1e-6)
    assert probability.min() >= 0 and probability.max() <= 1 and probability.max() - probability.min() > 0.5


@pytest.mark.parametrize("int8", [False, True])
def test_the_halting_graph_gives_the_scores_of_a_tokens_exits(int8: bool, tmp_path: Path) -> None:
    model = model_for("multinomial")
    assert isinstance(model.halting, MultinomialHalting)
    hidden = torch.randn(7, DIM, generator=torch.Generator().manual_seed(1))
    (scores,) = in_onnx(model, tmp_path, int8=int8).programs["halting"](states=hidden.numpy())
    with torch.inference_mode():
        torch.testing.assert_close(torch.from_numpy(scores), model.halting.token_logits(hidden), atol=1e-4, rtol=1e-5)


@pytest.mark.parametrize("int8", [False, True])
def test_the_halting_graph_gives_the_scores_of_a_sentences_exits_whatever_its_padding_holds(
    int8: bool, tmp_path: Path
) -> None:
    model = model_for("sequence")
    assert isinstance(model.halting, SequenceHalting)
    source, mask = sentences(7)
    assert not mask.all()
    with torch.inference_mode():
        memory = model.encode(source, mask)
        expected = model.halting.sentence_logits(memory, mask)
        memory[~mask] = 1000.0
    (scores,) = in_onnx(model, tmp_path, int8=int8).programs["halting"](memory=memory.numpy(), source_mask=mask.numpy())
    torch.testing.assert_close(torch.from_numpy(scores), expected, atol=1e-4, rtol=1e-5)


def test_a_model_without_a_halting_module_has_no_halting_graph(tmp_path: Path) -> None:
    assert "halting" not in write_graphs(tiny_model(), tmp_path, int8=False)


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
            [[expected]] = search(model, *make_source([source[:-1]]), parse_policy(policy, model), SETTINGS[1])
            limit = int(SETTINGS[1].limits(torch.ones(1, len(source), dtype=torch.bool), max_length=256))
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
