"""Exports of adopted runs for other programs: transformers' tokenizer loads from them, in the numbers
of the export, and what they say of text is true."""

import json
from pathlib import Path

import ctranslate2
import pytest
from marian_folders import save_marian, small_pairs, their_tokenizer

from anydepth.inference.adopt.adoption import adopt
from anydepth.inference.checking import check_folder
from anydepth.inference.export.ctranslate2_folder import export_ctranslate2, search_options
from anydepth.inference.export.onnx_folder import export_onnx
from anydepth.inference.translator import Translator
from anydepth.messages.say import say_nothing
from anydepth.runs.run import Run
from anydepth.search.decoding import GREEDY
from anydepth.text.tokenizer import EOS

LIMIT = 20
# lines that the model reads to their ends, and one with pieces that it does not know
LINES = [*[german for german, _ in small_pairs() if len(german) < 45][:9], ">>de<< Łukasz läuft im 漢字."]
TEXT = {"source.spm", "target.spm", "vocab.json", "tokenizer_config.json"}


@pytest.fixture(scope="module", params=[False, pytest.param(True, marks=pytest.mark.soak)], ids=["joint", "separate"])
def adopted(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Run:
    place = tmp_path_factory.mktemp("adopted")
    # with these seeds a model ends some translations at once and goes on in others
    seed = 2 if request.param else 1
    save_marian(place / "model", seed=seed, is_separate=request.param, search={"max_length": LIMIT})
    return adopt(place / "model", place / "run", say=say_nothing)


def test_an_onnx_export_has_the_tokens_of_its_graphs_for_their_tokenizer(adopted: Run) -> None:
    folder = export_onnx(adopted, int8=False, say=say_nothing)
    names, readme = {file.name for file in folder.iterdir()}, (folder / "README.txt").read_text(encoding="utf-8")
    assert names >= TEXT and ("target_vocab.json" in names) != adopted.is_joint
    assert not any(name.startswith("tokenizer") and name.endswith(".model") for name in names)
    assert "vocab.json         The token of each piece, in the numbering of these graphs" in readme
    assert "tokenizer*.model" not in readme
    tokenizer, own = their_tokenizer(folder), adopted.tokenizers()[0]
    assert [tokenizer(line).input_ids for line in LINES] == [[*ids, EOS] for ids in own.encode_lines(LINES)]
    first = adopted.original()
    assert first is not None
    assert json.loads((folder / "vocab.json").read_bytes()) != json.loads(
        (Path(first.folder) / "vocab.json").read_bytes()
    )
    assert check_folder(folder) > len(TEXT)


def test_ctranslate2_says_what_we_say_of_pieces_that_their_tokenizer_cuts(adopted: Run, tmp_path: Path) -> None:
    said: list[str] = []
    folder = export_ctranslate2(adopted, exit=3, quantization=None, to=tmp_path / "export", say=said.append)
    assert {file.name for file in folder.iterdir()} >= TEXT
    assert said[0].endswith("cut lines with source.spm or MarianTokenizer, whose files are there, without an end")
    tokenizer = their_tokenizer(folder)
    # their convert_ids_to_tokens looks in the target's vocabulary where there are two
    names = {number: piece for piece, number in tokenizer.encoder.items()}
    pieces = [[names[number] for number in tokenizer(line).input_ids[:-1]] for line in LINES]
    by_spm = [tokenizer.spm_source.encode(line, out_type=str) for line in LINES[:-1]]
    settings = GREEDY.resolved(adopted.config.decoding)
    options = search_options(settings, limit=LIMIT - 1)
    translator = ctranslate2.Translator(str(folder))
    ours = Translator.load(adopted.folder, engine="torch").translate(LINES, beam=1)
    for cut in (pieces, by_spm):
        for found, own in zip(translator.translate_batch(cut, **options), ours, strict=False):
            assert found.hypotheses[0][: LIMIT - 2] == own.tokens[: LIMIT - 2]
    assert len({len(own.tokens) for own in ours}) > 1, "else this shows little"
    unknown = adopted.tokenizers()[0].encode("漢")[-1]
    assert adopted.tokenizers()[0].pieces([unknown]) == ["<unk>"]
