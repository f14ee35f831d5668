"""Folders that cannot be adopted are each refused in one sentence; nothing is written, nothing is
executed."""

import json
import os
import pickle
import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from marian_folders import changed_json, save_marian, write_json
from safetensors.torch import load_file, save_file

from anydepth.errors import AdoptionError, RunError
from anydepth.inference.adopt import model_folder
from anydepth.inference.adopt.adoption import adopt
from anydepth.messages.say import say_nothing

Damage = Callable[[Path], Any]


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("marian") / "model"
    save_marian(place)
    return place


@pytest.fixture
def folder(sound: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(sound, tmp_path / "model"))


def without(name: str) -> Damage:
    return lambda folder: (folder / name).unlink()


def text(name: str, contents: str) -> Damage:
    return lambda folder: (folder / name).write_text(contents, encoding="utf-8")


def setting(**changes: Any) -> Damage:
    return lambda folder: changed_json(folder / "config.json", **changes)


def search(**changes: Any) -> Damage:
    return lambda folder: changed_json(folder / "generation_config.json", **changes)


def tokens(**changes: Any) -> Damage:
    return lambda folder: changed_json(folder / "tokenizer_config.json", **changes)


def pieces(change: Callable[[dict[str, int]], Any]) -> Damage:
    def damage(folder: Path) -> None:
        values = json.loads((folder / "vocab.json").read_text(encoding="utf-8"))
        change(values)
        write_json(folder / "vocab.json", values)

    return damage


def tensors(change: Callable[[dict[str, torch.Tensor]], Any]) -> Damage:
    def damage(folder: Path) -> None:
        values = load_file(folder / "model.safetensors")
        change(values)
        save_file(values, folder / "model.safetensors")

    return damage


def entry(name: str, number: float) -> Damage:
    def change(values: dict[str, torch.Tensor]) -> None:
        values[name].view(-1)[3] = number

    return tensors(change)


def cut_weights(folder: Path) -> None:
    whole = (folder / "model.safetensors").read_bytes()
    (folder / "model.safetensors").write_bytes(whole[: len(whole) // 2])


def link_out(folder: Path) -> None:
    elsewhere = folder.parent / "elsewhere.spm"
    shutil.move(folder / "source.spm", elsewhere)
    (folder / "source.spm").symlink_to(elsewhere)


def folder_for_file(folder: Path) -> None:
    (folder / "vocab.json").unlink()
    (folder / "vocab.json").mkdir()


FIRST, SHARED = "model.encoder.layers.0.fc1.weight", "model.shared.weight"
REFUSED: dict[str, tuple[Damage, str]] = {
    # files
    "no config": (without("config.json"), "has no config.json, which every MarianMT model has"),
    "no source.spm": (without("source.spm"), "has no source.spm"),
    "no target.spm": (without("target.spm"), "has no target.spm"),
    "no vocabulary": (without("vocab.json"), "has no vocab.json"),
    "no weights": (without("model.safetensors"), "has neither model.safetensors nor pytorch_model.bin"),
    "a folder for a file": (folder_for_file, "vocab.json cannot be read: Is a directory"),
    "a link that leads out": (link_out, "source.spm is a link that leads out of its folder"),
    "cut weights": (cut_weights, "model.safetensors is damaged or cut short"),
    "no JSON": (text("config.json", "{"), "config.json cannot be read: it is not JSON"),
    "no object": (text("config.json", "[1]"), "config.json is not a JSON object"),
    "deep JSON": (text("config.json", "[" * 500 + "]" * 500), "config.json cannot be read: it nests deeper than"),
    "a huge number": (text("config.json", '{"d_model": 1e999}'), "config.json cannot be read: it has '1e999'"),
    "an empty piece without a row": (
        pieces(lambda values: values.update({"": "x"})),
        "vocab.json gives the piece '' no row but 'x'",
    ),
    "half a beam": (search(num_beams=4.5), "has num_beams = 4.5, but it must be a whole number"),
    "a key twice": (text("vocab.json", '{"a": 1, "a": 2}'), "vocab.json cannot be read: it has the key 'a' twice"),
    "large settings": (text("config.json", " " * (2**20 + 1)), "config.json cannot be read: it has more than"),
    "no spm": (text("source.spm", "no model"), "source.spm is not a SentencePiece model"),
    "an empty spm": (text("target.spm", ""), "target.spm is not a SentencePiece model"),
    # settings
    "another kind": (setting(model_type="m2m_100"), "has model_type = 'm2m_100', but only \"marian\""),
    "another class": (setting(architectures=["BartModel"]), "has architectures = .'BartModel'., but only"),
    "pre-norm": (setting(normalize_before=True), "has normalize_before = True, but MarianMT has False"),
    "a final norm": (setting(add_final_layer_norm=True), "has add_final_layer_norm = True, but MarianMT has False"),
    "learned positions": (setting(static_position_embeddings=False), "has static_position_embeddings = False"),
    "an unknown setting": (setting(rotary=4), "has rotary = 4, but that setting is not known here"),
    "quantized": (setting(quantization_config={"bits": 4}), "has quantization_config = "),
    "an activation": (setting(activation_function="gelu_new"), "has activation_function = 'gelu_new', but only relu"),
    "no width": (setting(d_model=0), "has d_model = 0, but it must be a whole number above 0"),
    "a width of text": (setting(d_model="24"), "has d_model = '24', but it must be a whole number"),
    "an odd width": (setting(d_model=27, encoder_attention_heads=3), "has d_model = 27, but it must be even"),
    "heads": (setting(encoder_attention_heads=5), "has d_model = 24, but it must be even and divisible by encoder_att"),
    "one position": (setting(max_position_embeddings=1), "has max_position_embeddings = 1, but a sentence needs two"),
    "a scale of text": (setting(scale_embedding="yes"), "has scale_embedding = 'yes', but it must be true or false"),
    "many blocks": (setting(encoder_layers=9999), "model.encoder.blocks = 9999 cannot be used"),
    "dropout": (setting(dropout=7), "has dropout = 7, but it must be a number from 0 to 0.99"),
    # search
    "sampling": (search(do_sample=True), "has do_sample = True, but search here knows only False"),
    "n-grams": (search(no_repeat_ngram_size=3), "has no_repeat_ngram_size = 3, but search here knows only 0"),
    "a forced start": (search(forced_bos_token_id=5), "has forced_bos_token_id = 5, but that setting is not known"),
    "a forced end": (search(forced_eos_token_id=7), "has forced_eos_token_id = 7, but it must be eos_token_id = 0"),
    "two ends": (search(eos_token_id=[0, 1]), "has eos_token_id = .0, 1., but it must be one row"),
    "a far end": (search(eos_token_id=99999), "has eos_token_id = 99999, but it must be one row of a vocabulary"),
    "a far start": (search(decoder_start_token_id=-1), "has decoder_start_token_id = -1, but it must be one row"),
    "banned pairs": (search(bad_words_ids=[[1, 2]]), "has bad_words_ids = ..1, 2.., but each must be one row"),
    "a wide beam": (search(num_beams=5000), "has num_beams = 5000, but it must be a number from 1 to 1000"),
    "a third rule": (search(early_stopping="never"), "has early_stopping = 'never', but search here knows only true"),
    "a negative penalty": (search(length_penalty=-1), "has length_penalty = -1, but it must be a number from 0 to 10"),
    # tokenizer
    "another tokenizer": (tokens(tokenizer_class="T5Tokenizer"), "has tokenizer_class = 'T5Tokenizer', not Marian"),
    "separate for shared": (tokens(separate_vocabs=True), "has separate_vocabs = True, but config.json has share_enc"),
    "another end": (tokens(eos_token="<end>"), "has eos_token = '<end>', but only '</s>' is known here"),
    "sampled pieces": (tokens(sp_model_kwargs={"alpha": 0.1}), "has sp_model_kwargs = .*, which is not known here"),
    "added tokens": (
        tokens(added_tokens_decoder={"9": {"content": "<x>"}}),
        "adds the token '<x>' to the vocabulary, which is not known here",
    ),
    "stripping tokens": (
        tokens(added_tokens_decoder={"0": {"content": "</s>", "lstrip": True}}),
        "strips what stands beside '</s>', which is not known here",
    ),
    "an added file": (text("added_tokens.json", '{"<x>": 900}'), "added_tokens.json adds the token '<x>'"),
    "a language": (tokens(source_lang="../x"), "the language '../x' is no name; give --source-lang"),
    # vocabulary
    "a row of text": (pieces(lambda values: values.update({"a": "b"})), "gives the piece 'a' no row but 'b'"),
    "one piece more": (pieces(lambda values: values.update({"zzz": 900})), "has 262 pieces in rows 0 to 900, but conf"),
    "a hole": (pieces(lambda values: values.update({"</s>": 1})), "but config.json asks for each of 261 rows once"),
    "no unknown": (pieces(lambda values: values.update({"zzz": values.pop("<unk>")})), "vocab.json has no piece <unk>"),
    "an end elsewhere": (
        pieces(lambda values: values.update({"</s>": 1, "<unk>": 0})),
        "has </s> in row 1, but config.json has eos_token_id = 0",
    ),
    "sizes": (setting(vocab_size=300), "has 261 pieces in rows 0 to 260, but config.json asks for each of 300"),
    # weights
    "a missing tensor": (tensors(lambda values: values.pop(FIRST)), f"has no tensor {FIRST}"),
    "a tensor too many": (
        tensors(lambda values: values.update({"model.encoder.layer_norm.weight": torch.ones(24)})),
        "has the tensor model.encoder.layer_norm.weight, which a model of its config.json has not",
    ),
    "a wrong shape": (tensors(lambda values: values.update({FIRST: torch.ones(24, 20)})), r"fc1.weight is \(24, 20\)"),
    "one block fewer": (setting(decoder_layers=2), "has the tensor model.decoder.layers.2"),
    "whole numbers": (
        tensors(lambda values: values.update({FIRST: torch.ones(20, 24, dtype=torch.int8)})),
        "fc1.weight is of type torch.int8, which no weights are",
    ),
    "NaN": (entry(FIRST, float("nan")), "fc1.weight has what is no number"),
    "infinity": (entry("final_logits_bias", float("inf")), "final_logits_bias has what is no number"),
    "untied": (
        tensors(lambda values: values.update({"lm_head.weight": values[SHARED] + 1})),
        "lm_head.weight differs from model.shared.weight, which config.json says it is",
    ),
    "odd positions": (
        tensors(lambda values: values.update({"model.decoder.embed_positions.weight": torch.ones(64, 24)})),
        "embed_positions.weight are not MarianMT's sinusoids",
    ),
}


@pytest.mark.parametrize(("damage", "message"), REFUSED.values(), ids=REFUSED)
def test_a_bad_folder_is_refused_in_one_sentence_and_nothing_is_written(
    folder: Path, damage: Damage, message: str
) -> None:
    damage(folder)
    before = sorted(folder.parent.rglob("*"))
    with pytest.raises(AdoptionError, match=message) as caught:
        adopt(folder, folder.parent / "runs" / "new", say=say_nothing)
    assert "\n" not in str(caught.value) and str(caught.value).startswith((str(folder), "the language"))
    assert sorted(folder.parent.rglob("*")) == before


class Touch:
    """What a stranger's pickle may hold: a call of anything, which happens when it is loaded."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.path,)


@pytest.mark.parametrize("kind", ["plain pickle", "torch archive", "no tensors", "garbage"])
def test_a_pickle_with_code_in_it_is_refused_and_not_executed(folder: Path, kind: str) -> None:
    place, trace = folder / "pytorch_model.bin", folder.parent / "executed"
    (folder / "model.safetensors").unlink()
    message = "is damaged, or has more in it than tensors, which is not executed here"
    match kind:
        case "plain pickle":
            place.write_bytes(pickle.dumps({"weight": Touch(trace)}))
        case "torch archive":
            torch.save({"weight": Touch(trace)}, place)
        case "no tensors":
            torch.save([1, 2], place)
            message = "holds something other than named tensors"
        case _:
            place.write_bytes(b"\x80\x02garbage")
    with pytest.raises(AdoptionError, match=message):
        adopt(folder, folder.parent / "new", say=say_nothing)
    assert not trace.exists() and not (folder.parent / "new").exists()


def test_a_pickle_is_not_loaded_by_a_torch_whose_loading_is_not_safe(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    monkeypatch.setattr(model_folder.torch, "__version__", "2.9.1+cpu")
    with pytest.raises(AdoptionError, match=r"is a pickle, which only torch 2\.10 and later reads without executing"):
        adopt(folder, folder.parent / "new", say=say_nothing)


def test_an_archive_that_unpacks_to_more_than_it_is_is_refused_before_it_is_unpacked(folder: Path) -> None:
    (folder / "model.safetensors").unlink()
    torch.save({"weight": torch.zeros(100_000)}, folder / "stored.bin")
    with (
        zipfile.ZipFile(folder / "stored.bin") as stored,
        zipfile.ZipFile(folder / "pytorch_model.bin", "w", zipfile.ZIP_DEFLATED) as squeezed,
    ):
        for name in stored.namelist():
            squeezed.writestr(name, stored.read(name))
    with pytest.raises(AdoptionError, match=r"pytorch_model\.bin is compressed, which torch never does"):
        adopt(folder, folder.parent / "new", say=say_nothing)


def test_what_is_no_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(AdoptionError, match="is not a folder; give one with config"):
        adopt(tmp_path / "absent", tmp_path / "new", say=say_nothing)
    assert list(tmp_path.iterdir()) == []


def test_a_pipe_in_the_place_of_a_file_is_refused_and_not_waited_for(folder: Path) -> None:
    (folder / "config.json").unlink()
    os.mkfifo(folder / "config.json")
    with pytest.raises(AdoptionError, match="cannot be read: it is a pipe, not a file"):
        adopt(folder, folder.parent / "new", say=say_nothing)


def test_a_run_is_not_overwritten_without_being_told_to(folder: Path) -> None:
    to = folder.parent / "run"
    adopt(folder, to, say=say_nothing)
    with pytest.raises(RunError, match="exists already; choose another --to, or replace it with --overwrite"):
        adopt(folder, to, say=say_nothing)
    adopt(folder, to, overwrite=True, say=say_nothing)
    shutil.move(folder, to / "inside")
    with pytest.raises(RunError, match=r"DIR .* lies inside .*, which --overwrite would replace"):
        adopt(to / "inside", to, overwrite=True, say=say_nothing)
