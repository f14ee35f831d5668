"""Exports of a run that has a lexical table: CTranslate2 loads the map and keeps to it, and the ONNX
engine translates as the plain step does."""

from pathlib import Path

import ctranslate2
import pytest
from evaluation.translators import SOURCES, make_run, quiet
from tiny import BLOCKS
from variations import MARIAN

from anydepth.inference.checking import check_folder
from anydepth.inference.export.ctranslate2_folder import export_ctranslate2, search_options
from anydepth.inference.export.onnx_folder import export_onnx
from anydepth.inference.export.vocabulary_map import vocabulary_map
from anydepth.inference.translator import Translator
from anydepth.runs.run import Run
from anydepth.runs.word_selections import TableSettings, learn_table
from anydepth.search.decoding import DecodingOptions
from anydepth.vocabulary.lexical_table import TableSelection

LINES = [line for line in SOURCES if line] + ["Łukasz läuft"]


@pytest.fixture(scope="module", params=[(), MARIAN], ids=["plain", "as Marian's"])
def table_run(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Run:
    run = make_run(tmp_path_factory.mktemp("exported"), *request.param)
    learn_table(run, TableSettings(frequent=8, rounds=1), say=quiet)
    return run


def table_of(translator: Translator, vocabulary: str = "table:50") -> TableSelection:
    selection = translator.words(vocabulary)
    assert isinstance(selection, TableSelection)
    return selection


def test_ctranslate2_keeps_to_the_map_and_writes_what_we_write(table_run: Run, tmp_path: Path) -> None:
    told: list[str] = []
    folder = export_ctranslate2(table_run, exit=BLOCKS, quantization=None, to=tmp_path / "export", say=told.append)
    assert told[-1].endswith("; use_vmap=True chooses among the words of table:50")
    assert check_folder(folder) == len(list(folder.iterdir())) - 1
    ours = Translator.load(table_run.folder, engine="torch")
    theirs = ctranslate2.Translator(str(folder), compute_type="float32", intra_threads=1)
    settings = ours.search_settings(DecodingOptions(beam=1, vocabulary="table:50"))
    compared, changed = 0, 0
    for line in LINES:  # one by one: CTranslate2 joins the words of a batch
        source = ours.source_tokenizer.encode(line)
        limit = len(source) * 2 + 3
        options = search_options(settings, limit=limit)
        pieces = [ours.source_tokenizer.pieces(source)]
        mapped, free = (
            theirs.translate_batch(pieces, use_vmap=is_mapped, **options)[0].hypotheses[0]
            for is_mapped in (True, False)
        )
        (own,) = ours.translate([line], beam=1, vocabulary="table:50")
        shared = min(len(mapped), len(own.tokens)) - 1  # ours ends with </s> at its limit
        assert mapped[:shared] == own.tokens[:shared]
        compared, changed = compared + shared, changed + (mapped != free)
    assert compared and changed, "else this shows little"


def test_a_run_without_a_table_exports_no_map(tmp_path: Path) -> None:
    run = make_run(tmp_path)
    folder = export_ctranslate2(run, exit=1, quantization=None, to=tmp_path / "export", say=quiet)
    assert not (folder / "vmap.txt").exists()


def test_the_map_has_a_line_for_each_piece_that_brings_something(table_run: Run) -> None:
    translator = Translator.load(table_run.folder, engine="torch")
    sides = translator.source_tokenizer, translator.target_tokenizer
    source, target = (tokenizer.pieces(range(tokenizer.size)) for tokenizer in sides)
    selection = table_of(translator)
    lines = dict(line.split("\t") for line in vocabulary_map(selection, source, target).splitlines())
    standing = selection.table.standing
    assert lines[""].split(" ") == [target[word] for word in standing.always]
    assert set(lines["<0x41>"].split(" ")) >= {f"<0x{byte:02X}>" for byte in range(256)}
    for number, piece in enumerate(source):
        row = selection.cut.words[selection.cut.starts[number] : selection.cut.starts[number + 1]]
        expected = {target[word] for word in row}
        if standing.copies[number] >= 0:
            expected.add(target[standing.copies[number]])
        assert expected <= set(lines.get(piece, "").split(" "))


def test_pieces_with_what_divides_the_map_are_left_out(table_run: Run) -> None:
    translator = Translator.load(table_run.folder, engine="torch")
    sizes = translator.source_tokenizer.size, translator.target_tokenizer.size
    source, target = (["a\tb" if number == 290 else f"w{number}" for number in range(size)] for size in sizes)
    shown = vocabulary_map(table_of(translator), source, target)
    assert "w289" in shown and "a\tb" not in shown


def test_the_onnx_engine_translates_as_the_plain_step_does(table_run: Run) -> None:
    folder = export_onnx(table_run, int8=False, say=quiet)
    assert (folder / "lexical_table.safetensors").read_bytes() == table_run.table_file.read_bytes()
    assert "lexical_table.safetensors  A copy of the run's lexical table" in (folder / "README.txt").read_text()
    onnx, plain = (Translator.load(table_run.folder, engine=engine) for engine in ("onnx", "torch"))
    for policy in ("fixed:2", "confidence:0.1"):
        found, expected = (each.translate(LINES, policy=policy, vocabulary="table:2") for each in (onnx, plain))
        assert [(each.tokens, each.exits, each.words) for each in found] == [
            (each.tokens, each.exits, each.words) for each in expected
        ]
