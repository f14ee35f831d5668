"""Runs as MarianMT folders: transformers loads them and translates as we do, cut at any exit, and
what its format cannot say is refused."""

import json
from pathlib import Path

import pytest
import torch
from marian_folders import save_marian, small_pairs, their_outputs, their_tokenizer
from tiny import prepare_tiny, tiny_config
from variations import APART

from anydepth.errors import RunError, UsageError
from anydepth.inference.adopt.adoption import adopt
from anydepth.inference.checking import check_folder
from anydepth.inference.export.huggingface_folder import export_huggingface
from anydepth.inference.translator import Translator
from anydepth.messages.say import say_nothing
from anydepth.model.checkpoint import model_tensors, save_tensors
from anydepth.runs.metrics import metric_line
from anydepth.runs.models import new_model
from anydepth.runs.run import Run, create_run
from anydepth.search.decoding import DecodingOptions

LINES = [german for german, _ in small_pairs()[:12]]
LIMIT = ("decoding.beam=3", "decoding.length_ratio=0", "decoding.length_offset=24")
MARIAN = ("model.positions=marian", "model.encoder.dim=12", "model.max_length=40", *LIMIT)
BRIEF = ("separate, tied, gelu", "joint, untied")  # the others are in the soak
OWN = {
    "joint, tied": (True, ["model.classifiers=tied", "model.output_bias=true"]),
    "separate, tied, gelu": (False, ["model.classifiers=tied", "model.activation=gelu"]),
    "separate, shared": (False, ["model.classifiers=shared", "model.scale_embeddings=false"]),
    "joint, untied": (True, ["model.classifiers=untied", "model.encoder.heads=3"]),
}


def random_run(folder: Path, *changes: str, is_joint: bool) -> Run:
    """A run of ours with random weights, of which none is zero."""
    data = prepare_tiny(folder, joint=is_joint)
    run = create_run(folder / "run", tiny_config(*MARIAN, *changes), data)
    torch.manual_seed(4)
    model = new_model(run)
    with torch.no_grad():
        for name, tensor in model_tensors(model).items():
            tensor.add_(torch.randn_like(tensor) * 0.3)
            if name == "output_bias":
                tensor.normal_()
    save_tensors(run.weights_file, model_tensors(model))
    return run


@pytest.fixture(scope="module")
def adopted(tmp_path_factory: pytest.TempPathFactory) -> Run:
    place = tmp_path_factory.mktemp("adopted")
    save_marian(place / "model", search={"renormalize_logits": True, "num_beams": 4, "early_stopping": True})
    return adopt(place / "model", place / "run", say=say_nothing)


@pytest.mark.parametrize("is_separate", [pytest.param(False, marks=pytest.mark.soak), True])
def test_adopt_export_adopt_gives_the_same_run_and_transformers_the_same_outputs(
    tmp_path: Path, is_separate: bool
) -> None:
    search = {"num_beams": 4, "early_stopping": True, "renormalize_logits": not is_separate}
    first_folder = tmp_path / "first"
    save_marian(first_folder, is_separate=is_separate, search=search)
    first = adopt(first_folder, tmp_path / "run", say=say_nothing)
    again_folder = export_huggingface(first, exit=3, to=tmp_path / "again", say=say_nothing)
    again = adopt(again_folder, tmp_path / "second", say=say_nothing)
    for name in ("config.toml", *(path.name for path in first.folder.glob("tokenizer*.model"))):
        assert (again.folder / name).read_bytes() == (first.folder / name).read_bytes()
    translated, translated_again = (
        [each.text for each in Translator.load(run.folder, engine="torch").translate(LINES)] for run in (first, again)
    )
    assert translated == translated_again
    assert their_outputs(again_folder, LINES) == their_outputs(first_folder, LINES)
    assert check_folder(again_folder) == len(list(again_folder.iterdir())) - 1


@pytest.mark.parametrize(
    ("is_joint", "changes"),
    [pytest.param(*case, id=name, marks=[pytest.mark.soak] * (name not in BRIEF)) for name, case in OWN.items()],
)
def test_a_run_of_ours_cut_at_an_exit_translates_in_transformers_as_its_policy_does_here(
    tmp_path: Path, is_joint: bool, changes: list[str]
) -> None:
    run = random_run(tmp_path, *changes, is_joint=is_joint)
    own = Translator.load(run.folder, engine="torch")
    lines = ["der hund und die katze", "hund", "die katze schläft", "und", "heute läuft der hund gern", "x y z"]
    encoded = own.source_tokenizer.encode_lines(lines)
    for exit in (2, 4):
        folder = export_huggingface(run, exit=exit, to=None, say=say_nothing)
        assert folder == run.folder / "export" / f"huggingface-exit{exit}"
        for beam in (1, 3):
            search = DecodingOptions(beam=beam).resolved(own.config)
            found = [best.tokens for best, *_ in own.engine.search(encoded, own.policy(f"fixed:{exit}"), search)]
            theirs = their_outputs(folder, lines, num_beams=beam)
            both = list(zip(found, theirs, strict=True))
            # at its limit transformers forgets what the end costs
            compared = [pair for pair in both if beam == 1 or max(map(len, pair)) < 24]
            assert [ours for ours, _ in compared] == [rows for _, rows in compared]


def test_texts_of_ours_have_the_same_ids_in_transformers(tmp_path: Path) -> None:
    run = random_run(tmp_path, "model.classifiers=tied", is_joint=True)
    theirs = their_tokenizer(export_huggingface(run, exit=4, to=None, say=say_nothing))
    own, _ = run.tokenizers()
    for line in [*LINES, "ein hund", "x", "a  b ", "\u2603 bytes", "A.B,c!", "1 2 3"]:
        assert theirs(line).input_ids[:-1] == own.encode(line), line
        assert theirs.decode(own.encode(line), skip_special_tokens=True) == own.decode(own.encode(line)).strip()


def test_the_card_tells_the_recipe_and_what_was_measured(tmp_path: Path, adopted: Run) -> None:
    folder = export_huggingface(adopted, exit=3, to=tmp_path / "card", say=say_nothing)
    card = (folder / "README.md").read_text(encoding="utf-8")
    assert "# de to en" in card and "Nothing: measure it with" in card and "adopted from a MarianMT folder" in card
    run = random_run(tmp_path, "model.classifiers=tied", is_joint=True)
    line = metric_line({"event": "valid", "update": 30, "nll": [4.0, 3.0, 2.5, 2.0], "bleu": [1.0, 2.0, 3.0, 4.25]})
    run.metrics_file.write_text(line, encoding="utf-8")
    card = (export_huggingface(run, exit=4, to=None, say=say_nothing) / "README.md").read_text(encoding="utf-8")
    assert "| BLEU | 4.25 | validation text of training, update 30 | greedy, torch |" in card
    assert "| NLL per token | 2.000 |" in card


def test_banned_words_go_out_as_they_came_in(tmp_path: Path, adopted: Run) -> None:
    folder = export_huggingface(adopted, exit=3, to=tmp_path / "out", say=say_nothing)
    search = json.loads((folder / "generation_config.json").read_text(encoding="utf-8"))
    assert search["bad_words_ids"] == [[search["decoder_start_token_id"]]] and search["renormalize_logits"] is True
    assert (search["num_beams"], search["max_length"], search["early_stopping"]) == (4, 24, True)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (["model.positions=sinusoidal"], 'model.positions = "sinusoidal" has other rates than MarianMT'),
        (["model.encoder.dim=16"], "model.encoder.dim = 16 and model.decoder.dim = 12 differ, and it has one d_model"),
    ],
)
def test_what_the_format_cannot_say_is_refused_by_name(tmp_path: Path, changes: list[str], message: str) -> None:
    run = random_run(tmp_path, *changes, is_joint=False)
    with pytest.raises(RunError, match=f"cannot be said in MarianMT's format: {message}"):
        export_huggingface(run, exit=4, to=tmp_path / "out", say=say_nothing)
    assert not (tmp_path / "out").exists()


def test_an_exit_that_an_adopted_run_does_not_have_is_refused(tmp_path: Path, adopted: Run) -> None:
    with pytest.raises(UsageError, match="fixed:2: this model has exit 3 only"):
        export_huggingface(adopted, exit=2, to=tmp_path / "out", say=say_nothing)


def test_a_folder_that_is_no_export_is_left_alone(tmp_path: Path, adopted: Run) -> None:
    for name in ("file", "README.md"):  # a card alone is what every project has
        (tmp_path / name).write_text("mine", encoding="utf-8")
    with pytest.raises(UsageError, match="exists and is no export, so it is left alone"):
        export_huggingface(adopted, exit=3, to=tmp_path, say=say_nothing)
    assert (tmp_path / "file").read_text(encoding="utf-8") == "mine"


def test_an_export_takes_the_place_of_an_earlier_one(tmp_path: Path, adopted: Run) -> None:
    for _ in range(2):
        export_huggingface(adopted, exit=3, to=tmp_path / "out", say=say_nothing)
    assert (tmp_path / "out" / "config.json").exists()


@pytest.mark.parametrize("attended", APART)
def test_a_model_whose_blocks_attend_to_the_first_is_refused_above_exit_1(attended: str, tmp_path: Path) -> None:
    run = random_run(tmp_path, *MARIAN, attended, is_joint=False)
    with pytest.raises(UsageError, match=r"^blocks above the first attend .* which MarianMT's format cannot express"):
        export_huggingface(run, exit=2, to=tmp_path / "out", say=say_nothing)
    export_huggingface(run, exit=1, to=tmp_path / "out", say=say_nothing)


def test_an_exit_with_an_adapter_is_refused_and_the_last_exit_is_not(tmp_path: Path) -> None:
    run = random_run(tmp_path, *MARIAN, "model.exit_adapter=5", is_joint=False)
    with pytest.raises(UsageError, match=r"exit 2 has an adapter .* which MarianMT's format cannot express"):
        export_huggingface(run, exit=2, to=tmp_path / "out", say=say_nothing)
    assert not (tmp_path / "out").exists()
    export_huggingface(run, exit=4, to=tmp_path / "out", say=say_nothing)
