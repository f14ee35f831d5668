"""Export for CTranslate2: the same tokens as a fixed exit, for every shape of model, and a folder
that has all a user needs."""

import math
import sys
from pathlib import Path

import ctranslate2
import pytest
import torch
from evaluation.translators import SOURCES, make_run, quiet
from tiny import BLOCKS, tiny_config
from variations import APART, MARIAN, ban

from anydepth.errors import RunError, UsageError
from anydepth.exits.adaptive import AdaptiveTransformer
from anydepth.exits.policies import FixedExit
from anydepth.inference.engines.torch_engine import TorchEngine
from anydepth.inference.export.ctranslate2_folder import export_ctranslate2, search_options, write_ctranslate2
from anydepth.model.checkpoint import model_tensors
from anydepth.runs.models import load_model
from anydepth.runs.run import Run
from anydepth.search.decoding import SearchSettings
from anydepth.text.tokenizer import BOS, EOS, PAD, UNK, Tokenizer

SOURCE_WORDS, TARGET_WORDS, LIMIT = 53, 61, 40
SENTENCES = [[5, 6, 7, 8, 9, 10], [11, 12], [13, 14, 15, 16], [40, 41, 42, 43, 44, 45, 46, 47], [9], [20, 30, 20]]
MODELS = [
    (["model.classifiers=untied"], False),
    (["model.classifiers=shared"], True),
    (["model.classifiers=tied"], False),
    (["model.classifiers=tied", "model.encoder.dim=12"], True),
    (["model.exits=last", "model.encoder.dim=24"], True),
    (["model.classifiers=tied", "model.encoder.dim=12", *MARIAN], True),
    (["model.activation=gelu", "model.scale_embeddings=false", *MARIAN[1:]], False),
    (["model.activation=swish", "model.encoder.heads=8"], False),
]


def lively_model(changes: list[str], is_joint: bool) -> AdaptiveTransformer:
    """A model with random weights whose sentences come to an end, and that never wants PAD, BOS or
    UNK."""
    torch.manual_seed(8)
    source = TARGET_WORDS if is_joint else SOURCE_WORDS
    model = AdaptiveTransformer(
        tiny_config(f"model.max_length={LIMIT}", *changes),
        source_vocab=source,
        target_vocab=TARGET_WORDS,
        is_joint=is_joint,
    )
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim == 1:
                parameter.add_(torch.randn_like(parameter), alpha=0.3)
        for weights in {id(model.classifier(n)): model.classifier(n) for n in model.config.classifier_exits}.values():
            weights.mul_(2)
            weights[EOS] *= 3
            weights[[PAD, BOS, UNK]] = 0
        if model.output_bias is not None:
            ban(model, PAD, BOS, bias=-math.inf)
            ban(model, UNK, 12, bias=-1e9)
    return model.eval()


def pieces(count: int) -> list[str]:
    return ["<pad>", "<s>", "</s>", "<unk>", *(f"word{number}" for number in range(4, count))]


def by_ctranslate2(
    folder: Path, sentences: list[list[int]], settings: SearchSettings, source: list[str]
) -> list[list[str]]:
    translator = ctranslate2.Translator(str(folder), compute_type="float32", intra_threads=1)
    results = translator.translate_batch(
        [[source[token] for token in ids] for ids in sentences], **search_options(settings, limit=LIMIT)
    )
    return [result.hypotheses[0] for result in results]


@pytest.mark.parametrize(("changes", "is_joint"), MODELS)
@pytest.mark.parametrize("beam", [1, 5])
def test_ctranslate2_gives_the_tokens_of_a_fixed_exit(
    changes: list[str], is_joint: bool, beam: int, tmp_path: Path
) -> None:
    model, settings = (
        lively_model(changes, is_joint),
        SearchSettings(beam=beam, best=beam, length_offset=LIMIT, batch_tokens=999),
    )
    source, target = pieces(model.source_embedding.num_embeddings), pieces(TARGET_WORDS)
    lengths, compared = set(), 0
    for n in model.config.classifier_exits:
        (folder := tmp_path / str(n)).mkdir()
        write_ctranslate2(model, source, target, folder, exit=n, quantization=None)
        ours = TorchEngine(model).search(SENTENCES, FixedExit(n, BLOCKS), settings)
        theirs = by_ctranslate2(folder, SENTENCES, settings, source)
        # At the limit CTranslate2 cuts, where ours ends with EOS and pays for it: only a search
        # that is over before it is the same, and without a beam all tokens but the last.
        for mine, other in zip(ours, theirs, strict=True):
            is_over = all(hypothesis.has_finished for hypothesis in mine)
            if is_over or beam == 1:
                part = slice(None) if is_over else slice(0, LIMIT - 1)
                assert other[part] == [target[token] for token in mine[0].tokens][part]
                compared += 1
            lengths.add(len(mine[0].tokens))
    assert len(lengths) > 1
    assert compared > 3


@pytest.mark.parametrize("quantization", ["int8", "float16"])
def test_a_word_that_the_bias_bans_is_not_produced_by_an_export_of_fewer_bits_either(
    quantization: str, tmp_path: Path
) -> None:
    model = lively_model([*MARIAN], is_joint=True)
    names, settings = pieces(TARGET_WORDS), SearchSettings(beam=1, length_offset=LIMIT, batch_tokens=999)
    liked = {best.tokens[0] for (best,) in TorchEngine(model).search(SENTENCES, FixedExit(2, BLOCKS), settings)} - {EOS}
    assert liked, "else there is nothing to ban"
    ban(model, *liked, bias=-1e9)
    write_ctranslate2(model, names, names, tmp_path, exit=2, quantization=quantization)
    found = {word for words in by_ctranslate2(tmp_path, SENTENCES, settings, names) for word in words}
    assert not found & {names[word] for word in (PAD, BOS, UNK, *liked)}
    assert len(found) > 3


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return make_run(tmp_path)


def test_an_export_of_a_run_has_its_vocabularies_and_tokenizers_and_translates(run: Run) -> None:
    folder = export_ctranslate2(run, exit=3, quantization=None, to=None, say=quiet)
    assert folder == run.folder / "export" / "ctranslate2-exit3"
    tokenizers = [Tokenizer.load(folder / f"tokenizer.{side}.model") for side in ("source", "target")]
    assert [each.fingerprint for each in tokenizers] == [each.fingerprint for each in run.tokenizers()]
    assert {"model.bin", "config.json", "source_vocabulary.json", "target_vocabulary.json"} < {
        path.name for path in folder.iterdir()
    }
    sentences = tokenizers[0].encode_lines([line for line in SOURCES if line])
    model, settings = (
        load_model(run),
        SearchSettings(beam=1, length_ratio=0.01, length_offset=LIMIT - 1, batch_tokens=999),
    )
    ours = [best.tokens for (best,) in TorchEngine(model).search(sentences, FixedExit(3, BLOCKS), settings)]
    theirs = by_ctranslate2(folder, sentences, settings, tokenizers[0].pieces(range(tokenizers[0].size)))
    at_limit = [len(tokens) == LIMIT for tokens in ours]  # where CTranslate2 cuts and we end with EOS
    kept = [slice(0, LIMIT - 1) if is_cut else slice(None) for is_cut in at_limit]
    assert [own[part] for own, part in zip(theirs, kept, strict=True)] == [
        tokenizers[1].pieces(tokens)[part] for tokens, part in zip(ours, kept, strict=True)
    ]
    assert any(at_limit)


def test_an_8_bit_export_is_smaller_beside_the_other_and_leaves_the_model_as_it_was(run: Run, tmp_path: Path) -> None:
    plain = export_ctranslate2(run, exit=2, quantization=None, to=None, say=quiet)
    small = export_ctranslate2(run, exit=2, quantization="int8", to=None, say=quiet)
    assert small.name == "ctranslate2-exit2-int8"
    assert (small / "model.bin").stat().st_size < (plain / "model.bin").stat().st_size
    model = load_model(run)
    before = {name: tensor.clone() for name, tensor in model_tensors(model).items()}
    (tmp_path / "again").mkdir()
    source, target = (tokenizer.pieces(range(tokenizer.size)) for tokenizer in run.tokenizers())
    write_ctranslate2(model, source, target, tmp_path / "again", exit=2, quantization="int8")
    assert (tmp_path / "again" / "model.bin").read_bytes() == (small / "model.bin").read_bytes()
    assert all(tensor.equal(before[name]) for name, tensor in model_tensors(model).items())


def test_a_second_export_replaces_the_first_and_nothing_else(run: Run, tmp_path: Path) -> None:
    folder = export_ctranslate2(run, exit=1, quantization=None, to=tmp_path / "cut", say=quiet)
    (folder / "old").write_text("old")
    export_ctranslate2(run, exit=2, quantization=None, to=folder, say=quiet)
    assert not (folder / "old").exists()
    with pytest.raises(
        UsageError,
        match=r"run exists and is not a CTranslate2 model, so it is left alone; choose another place with --to",
    ):
        export_ctranslate2(run, exit=1, quantization=None, to=run.folder, say=quiet)
    assert run.weights_file.exists()


@pytest.mark.parametrize("attended", APART)
def test_a_model_whose_blocks_attend_to_the_first_is_refused_above_exit_1(attended: str, tmp_path: Path) -> None:
    run = make_run(tmp_path, attended)
    with pytest.raises(UsageError, match=r"^blocks above the first attend .* CTranslate2's format cannot express"):
        export_ctranslate2(run, exit=2, quantization=None, to=None, say=quiet)
    export_ctranslate2(run, exit=1, quantization=None, to=tmp_path / "out", say=quiet)
    assert (tmp_path / "out" / "model.bin").exists()


def test_what_cannot_be_exported_is_refused(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match=r"fixed:5: this model has exits 1 to 4"):
        export_ctranslate2(run, exit=5, quantization=None, to=None, say=quiet)
    with pytest.raises(UsageError, match=r"CTranslate2 has no quantization 'int4'; choose one of int8"):
        export_ctranslate2(run, exit=1, quantization="int4", to=None, say=quiet)
    with pytest.raises(RunError, match=r"is not a run directory"):
        export_ctranslate2(Run(run.folder / "none"), exit=1, quantization=None, to=None, say=quiet)
    monkeypatch.setitem(sys.modules, "ctranslate2", None)
    with pytest.raises(
        UsageError, match=r"needs the package ctranslate2; get it with `pip install 'anydepth\[ctranslate2\]'`"
    ):
        export_ctranslate2(run, exit=1, quantization=None, to=None, say=quiet)
    assert not (run.folder / "export").exists()
