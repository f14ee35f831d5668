import gzip
import json
import random
import shutil
import tracemalloc
from dataclasses import replace
from pathlib import Path

import pytest

from anydepth.errors import AnydepthError, CorpusError, RunError
from anydepth.files.seal import Seal
from anydepth.text import prepare as prepare_module
from anydepth.text.prepare import PrepareSettings, prepare
from anydepth.text.prepared import PreparedData

GERMAN = ["der", "hund", "läuft", "schnell", "größer", "und", "die", "katze", "schläft"]
ENGLISH = ["the", "dog", "runs", "fast", "taller", "and", "a", "cat", "sleeps"]
ODD_VALID = [("", ""), ("a\u2028b", "a\x85b"), ("hu\rnd", " dog "), ("wort " * 400, "word"), ("\u2581", "<s>")]


def write_split(folder: Path, split: str, pairs: list[tuple[str, str]]) -> None:
    for side, language in enumerate(("de", "en")):
        (folder / f"{split}.{language}").write_bytes("".join(f"{pair[side]}\n" for pair in pairs).encode())


def word_pairs(count: int) -> list[tuple[str, str]]:
    randomness = random.Random(5)
    numbers = [randomness.choices(range(len(GERMAN)), k=randomness.randint(2, 8)) for _ in range(count)]
    return [(" ".join(GERMAN[word] for word in words), " ".join(ENGLISH[word] for word in words)) for words in numbers]


@pytest.fixture
def settings(tmp_path: Path) -> PrepareSettings:
    write_split(tmp_path, "train", word_pairs(60))
    write_split(tmp_path, "valid", [*word_pairs(4), *ODD_VALID])
    train, valid = str(tmp_path / "train"), str(tmp_path / "valid")
    return PrepareSettings(source_lang="de", target_lang="en", train=train, valid=valid, vocab_size=310)


def test_prepared_data_that_a_kill_left_without_its_name_is_found_by_readers_and_not_replaced_unasked(
    settings: PrepareSettings, tmp_path: Path
) -> None:
    prepare(settings, tmp_path / "out")
    before = PreparedData.open(tmp_path / "out").fingerprint
    (tmp_path / "out").rename(tmp_path / ".out.old")  # what a kill between the two renames of --overwrite leaves
    assert PreparedData.open(tmp_path / "out").fingerprint == before
    (tmp_path / "out").rename(tmp_path / ".out.old")
    with pytest.raises(CorpusError, match="already holds prepared data"):
        prepare(settings, tmp_path / "out")
    PreparedData.open(tmp_path / "out").verify()


def test_training_pairs_come_back_in_order(settings: PrepareSettings, tmp_path: Path) -> None:
    manifest = prepare(settings, tmp_path / "out")
    data = PreparedData.open(tmp_path / "out")
    pairs = data.pairs("train")
    decoded = [
        (data.source_tokenizer.decode(pairs.source(number)), data.target_tokenizer.decode(pairs.target(number)))
        for number in range(len(pairs))
    ]
    assert decoded == word_pairs(60)
    assert manifest == data.manifest
    assert manifest.splits["train"].tokens == {"de": len(pairs.source_side.tokens), "en": len(pairs.target_side.tokens)}


def test_valid_keeps_every_pair_whole_in_tokens_and_text(settings: PrepareSettings, tmp_path: Path) -> None:
    prepare(settings, tmp_path / "out")
    data = PreparedData.open(tmp_path / "out")
    pairs = data.pairs("valid")
    expected = [*word_pairs(4), *ODD_VALID]
    assert list(zip(*data.references("valid"), strict=True)) == expected
    assert [data.source_tokenizer.decode(pairs.source(number)) for number in range(len(pairs))] == [
        source for source, _ in expected
    ]
    assert data.manifest.splits["valid"].dropped == {}


def test_unfit_training_pairs_are_dropped_and_counted_by_reason(settings: PrepareSettings, tmp_path: Path) -> None:
    unfit = [("", "dog"), ("  ", "dog"), ("hund " * 60, "dog " * 60), ("hund", "dog " * 40)]
    write_split(tmp_path, "train", word_pairs(30) + unfit + word_pairs(30))
    reports: list[str] = []
    manifest = prepare(replace(settings, max_tokens=50), tmp_path / "out", say=reports.append)
    assert manifest.splits["train"].pairs == len(PreparedData.open(tmp_path / "out").pairs("train")) == 60
    assert manifest.splits["train"].dropped == {"empty": 2, "too long": 1, "unbalanced": 1}
    assert "train: 60 pairs kept, dropped: empty 2, too long 1, unbalanced 1" in reports


def test_a_joint_tokenizer_is_shared_and_separate_ones_differ(settings: PrepareSettings, tmp_path: Path) -> None:
    prepare(settings, tmp_path / "joint")
    prepare(replace(settings, joint=False, vocab_size=295), tmp_path / "separate")
    joint, separate = PreparedData.open(tmp_path / "joint"), PreparedData.open(tmp_path / "separate")
    assert joint.is_joint and joint.source_tokenizer is joint.target_tokenizer
    assert not separate.is_joint and separate.source_tokenizer.fingerprint != separate.target_tokenizer.fingerprint
    assert {path.name for path in (tmp_path / "separate").glob("tokenizer*")} == {
        "tokenizer.de.model",
        "tokenizer.en.model",
    }
    assert separate.manifest.vocab_sizes == {"de": 295, "en": 295}


def test_the_folder_holds_exactly_the_listed_files(settings: PrepareSettings, tmp_path: Path) -> None:
    write_split(tmp_path, "test", word_pairs(3))
    manifest = prepare(replace(settings, test=str(tmp_path / "test")), tmp_path / "out")
    tokens = {
        f"{split}.{side}.{kind}"
        for split in ("train", "valid", "test")
        for side in ("de", "en")
        for kind in ("tokens", "offsets")
    }
    texts = {"valid.de", "valid.en", "test.de", "test.en"}
    assert set(manifest.files) == tokens | texts | {"tokenizer.model"}
    assert {path.name for path in (tmp_path / "out").iterdir()} == {*manifest.files, "manifest.json"}
    PreparedData.open(tmp_path / "out").verify()


def test_packed_text_in_another_place_makes_the_same_data(settings: PrepareSettings, tmp_path: Path) -> None:
    (tmp_path / "packed").mkdir()
    for path in [*tmp_path.glob("train.*"), *tmp_path.glob("valid.*")]:
        (tmp_path / "packed" / f"{path.name}.gz").write_bytes(gzip.compress(path.read_bytes()))
    elsewhere = replace(settings, train=str(tmp_path / "packed/train"), valid=str(tmp_path / "packed/valid"))
    assert prepare(settings, tmp_path / "out").fingerprint == prepare(elsewhere, tmp_path / "again").fingerprint
    assert (
        prepare(replace(settings, vocab_size=311), tmp_path / "other").fingerprint
        != PreparedData.open(tmp_path / "out").fingerprint
    )


def test_the_number_of_pairs_at_once_does_not_show(
    settings: PrepareSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    at_once = prepare(settings, tmp_path / "out")
    monkeypatch.setattr(prepare_module, "PAIRS_AT_ONCE", 7)
    assert prepare(settings, tmp_path / "again") == at_once


def test_memory_does_not_grow_with_the_corpus(
    settings: PrepareSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prepare_module, "PAIRS_AT_ONCE", 100)
    peaks = []
    for count in (500, 5000):
        write_split(tmp_path, "train", word_pairs(count))
        tracemalloc.start()
        prepare(replace(settings, sample=100), tmp_path / f"out{count}")
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 1.3 * peaks[0]


def test_progress_is_reported_with_its_speed(
    settings: PrepareSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prepare_module, "PAIRS_AT_ONCE", 10)
    monkeypatch.setattr(prepare_module, "PAIRS_BETWEEN_REPORTS", 20)
    reports: list[str] = []
    prepare(settings, tmp_path / "out", say=reports.append)
    progress = [line for line in reports if line.startswith("train: ") and line.endswith(" lines/s")]
    assert [line.split()[1] for line in progress] == ["20", "40", "60"]


def test_the_number_of_processes_does_not_show_in_any_file(
    settings: PrepareSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prepare_module, "PAIRS_AT_ONCE", 11)
    for jobs in (1, 2):
        prepare(settings, tmp_path / str(jobs), jobs=jobs)
    alone, together = ({path.name: path.read_bytes() for path in (tmp_path / jobs).iterdir()} for jobs in "12")
    assert alone == together


@pytest.mark.parametrize("failure", [KeyboardInterrupt, CorpusError])
def test_a_failure_leaves_nothing_behind(
    settings: PrepareSettings, tmp_path: Path, failure: type[BaseException]
) -> None:
    before = set(tmp_path.iterdir())

    def stop(line: str) -> None:
        if line.startswith("train: "):
            raise failure

    with pytest.raises(failure):
        prepare(settings, tmp_path / "out", say=stop)
    assert set(tmp_path.iterdir()) == before


def test_prepared_data_is_replaced_only_on_demand(settings: PrepareSettings, tmp_path: Path) -> None:
    prepare(settings, tmp_path / "out")
    with pytest.raises(
        CorpusError, match=r"out already holds prepared data; choose another --to, or replace it with --overwrite"
    ):
        prepare(settings, tmp_path / "out")
    prepare(replace(settings, vocab_size=311), tmp_path / "out", overwrite=True)
    assert PreparedData.open(tmp_path / "out").source_tokenizer.size == 311
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]


def test_a_failed_replacement_keeps_the_old_data(settings: PrepareSettings, tmp_path: Path) -> None:
    fingerprint = prepare(settings, tmp_path / "out").fingerprint
    with pytest.raises(CorpusError, match="largest possible"):
        prepare(replace(settings, vocab_size=100_000), tmp_path / "out", overwrite=True)
    data = PreparedData.open(tmp_path / "out")
    data.verify()
    assert data.fingerprint == fingerprint


def test_an_empty_folder_is_used(settings: PrepareSettings, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    prepare(settings, tmp_path / "out")
    data = PreparedData.open(tmp_path / "out")
    data.verify()
    assert len(data.pairs("train")) > 0


def test_a_folder_of_something_else_is_never_overwritten(settings: PrepareSettings, tmp_path: Path) -> None:
    with pytest.raises(
        CorpusError, match=r"exists and is not prepared data, so it is never overwritten; choose another --to"
    ):
        prepare(settings, tmp_path, overwrite=True)


def test_a_place_that_cannot_be_written_is_named(settings: PrepareSettings, tmp_path: Path) -> None:
    with pytest.raises(
        AnydepthError, match=r"cannot write .*train\.de/out: Not a directory; check the path and its permissions or"
    ):
        prepare(settings, tmp_path / "train.de" / "out")


def test_a_missing_split_is_refused_before_any_work(settings: PrepareSettings, tmp_path: Path) -> None:
    reports: list[str] = []
    with pytest.raises(CorpusError, match=r"there is neither .*test\.de nor"):
        prepare(replace(settings, test=str(tmp_path / "test")), tmp_path / "out", say=reports.append)
    assert reports == []


def test_a_fault_in_the_test_text_is_found_before_the_long_work(settings: PrepareSettings, tmp_path: Path) -> None:
    write_split(tmp_path, "test", word_pairs(3))
    (tmp_path / "test.en").write_bytes(b"one\n")
    reports: list[str] = []
    with pytest.raises(CorpusError, match=r"test\.de has 3 lines but test\.en has 1"):
        prepare(replace(settings, test=str(tmp_path / "test")), tmp_path / "out", say=reports.append)
    assert reports == []


def test_a_corpus_without_a_fit_pair_is_refused_with_the_reasons(settings: PrepareSettings, tmp_path: Path) -> None:
    write_split(tmp_path, "train", [(source, "") for source, _ in word_pairs(40)] + [("hund " * 30, "katze " * 30)])
    with pytest.raises(
        CorpusError, match=r"all 41 pairs of .*train were dropped \(empty 40, too long 1\); check that the files"
    ):
        prepare(replace(settings, max_tokens=20, vocab_size=290), tmp_path / "out")


@pytest.mark.parametrize(
    "change, message",
    [
        ({"source_lang": "de/x"}, r"^--source-lang 'de/x': a language is letters, digits, - and _; write it as in"),
        ({"target_lang": ""}, r"^--target-lang '': a language is letters, digits, - and _; write it as in"),
        ({"target_lang": "de"}, r"^--source-lang and --target-lang are both 'de'; name two different ones"),
        ({"max_tokens": 0}, r"^--max-tokens 0 would drop every pair"),
        ({"max_ratio": 0.5}, r"^--max-ratio 0\.5 would drop every long pair"),
        ({"sample": 0}, r"^--sample 0 leaves a tokenizer no lines to learn from; set it to 1 or more"),
    ],
)
def test_settings_that_break_a_rule_are_refused(
    settings: PrepareSettings, change: dict[str, object], message: str
) -> None:
    with pytest.raises(CorpusError, match=message):
        replace(settings, **change)


def test_a_split_that_is_not_there_is_refused(settings: PrepareSettings, tmp_path: Path) -> None:
    prepare(settings, tmp_path / "out")
    data = PreparedData.open(tmp_path / "out")
    with pytest.raises(CorpusError, match=r"out holds no 'test' text to read, only train, valid; ask for one of these"):
        data.pairs("test")
    with pytest.raises(CorpusError, match=r"out holds no 'train' text to read, only valid; ask for one of these"):
        data.references("train")


def test_a_folder_without_a_manifest_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match=r"holds no manifest\.json; give a folder that prepare wrote"):
        PreparedData.open(tmp_path)


@pytest.mark.parametrize(
    "text, message",
    [
        ("{", r"manifest\.json is damaged: .*; prepare the data again"),
        ("[" * 100_000, r"manifest\.json is damaged: .*; prepare the data again"),
        ('{"format": 2}', r"manifest\.json is damaged: it has no checksum; prepare the data again"),
        ('{"format": 2, "checksum": "0"}', r"manifest\.json is damaged: its checksum differs; prepare the data again"),
        ('{"format": 99}', r"manifest\.json has format 99 but this version reads format 2; prepare the data again"),
        ("[]", r"manifest\.json has format None but this version reads format 2; prepare the data again"),
    ],
)
def test_a_damaged_manifest_is_refused(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "manifest.json").write_text(text)
    with pytest.raises(CorpusError, match=message):
        PreparedData.open(tmp_path)


def test_missing_cut_and_changed_files_are_named(settings: PrepareSettings, tmp_path: Path) -> None:
    prepare(settings, tmp_path / "out")
    path = tmp_path / "out" / "train.de.tokens"
    whole = path.read_bytes()
    path.write_bytes(whole[:-2] + b"\x09\x09")
    with pytest.raises(
        CorpusError, match=r"train\.de\.tokens has changed since it was prepared \(SHA-256 differs\); prepare"
    ):
        PreparedData.open(tmp_path / "out").verify()
    path.write_bytes(whole[:-1])
    expected = (
        rf"train\.de\.tokens has {len(whole) - 1:,} bytes but the manifest says {len(whole):,}; prepare the data again"
    )
    with pytest.raises(CorpusError, match=expected):
        PreparedData.open(tmp_path / "out")
    path.unlink()
    with pytest.raises(CorpusError, match=r"train\.de\.tokens is missing; prepare the data again"):
        PreparedData.open(tmp_path / "out")


def test_the_manifest_is_json_with_the_settings(settings: PrepareSettings, tmp_path: Path) -> None:
    prepare(settings, tmp_path / "out")
    values = json.loads((tmp_path / "out" / "manifest.json").read_bytes())
    assert values["format"] == 2
    assert PrepareSettings(**values["settings"]) == settings


@pytest.mark.parametrize("joint", [True, False])
def test_a_known_vocabulary_is_used_again_for_other_text(
    settings: PrepareSettings, tmp_path: Path, joint: bool
) -> None:
    first = replace(settings, joint=joint)
    prepare(first, tmp_path / "first")
    write_split(tmp_path, "other", [(source[::-1], target[::-1]) for source, target in word_pairs(30)])
    prepare(
        replace(first, train=str(tmp_path / "other"), tokenizer_from=str(tmp_path / "first"), vocab_size=None),
        tmp_path / "second",
    )
    known, data = PreparedData.open(tmp_path / "first"), PreparedData.open(tmp_path / "second")
    assert data.source_tokenizer.fingerprint == known.source_tokenizer.fingerprint
    assert data.target_tokenizer.fingerprint == known.target_tokenizer.fingerprint
    assert data.is_joint == joint
    assert data.source_tokenizer.decode(data.pairs("train").source(0).tolist()) == word_pairs(1)[0][0][::-1]


def test_a_place_without_that_kind_of_vocabulary_is_refused_and_nothing_written(
    settings: PrepareSettings, tmp_path: Path
) -> None:
    prepare(settings, tmp_path / "first")
    with pytest.raises(
        CorpusError, match=r"first does not have a vocabulary of its own for de \(no tokenizer.de.model\)"
    ):
        prepare(
            replace(settings, joint=False, vocab_size=None, tokenizer_from=str(tmp_path / "first")), tmp_path / "second"
        )
    with pytest.raises(CorpusError, match=r"nowhere does not have a joint vocabulary \(no tokenizer.model\)"):
        prepare(replace(settings, vocab_size=None, tokenizer_from=str(tmp_path / "nowhere")), tmp_path / "second")
    assert not (tmp_path / "second").exists()


def test_a_size_beside_a_known_vocabulary_is_refused(settings: PrepareSettings, tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match=r"has its size already; leave out --vocab-size"):
        replace(settings, tokenizer_from=str(tmp_path / "first"))


def test_the_vocabularies_of_a_run_go_with_their_languages_whichever_is_the_source(
    settings: PrepareSettings, tmp_path: Path
) -> None:
    prepare(replace(settings, joint=False), tmp_path / "first")
    known = PreparedData.open(tmp_path / "first")
    run = tmp_path / "run"
    run.mkdir()
    known.target_tokenizer.save(run / "tokenizer.source.model")
    known.source_tokenizer.save(run / "tokenizer.target.model")
    (run / "data.json").write_text('{"source_lang": "en", "target_lang": "de"}', encoding="utf-8")
    Seal(run).make()
    prepare(replace(settings, joint=False, vocab_size=None, tokenizer_from=str(run)), tmp_path / "second")
    data = PreparedData.open(tmp_path / "second")
    assert data.source_tokenizer.fingerprint == known.source_tokenizer.fingerprint != known.target_tokenizer.fingerprint
    assert data.target_tokenizer.fingerprint == known.target_tokenizer.fingerprint
    (run / "data.json").write_text("[]", encoding="utf-8")
    with pytest.raises(RunError, match=r"data.json is not as the run wrote it \(its checksum differs\)"):
        prepare(replace(settings, joint=False, vocab_size=None, tokenizer_from=str(run)), tmp_path / "third")
    Seal(run).make()
    with pytest.raises(CorpusError, match=r"data.json does not tell the languages of the run"):
        prepare(replace(settings, joint=False, vocab_size=None, tokenizer_from=str(run)), tmp_path / "third")


def test_text_inside_the_folder_that_would_be_replaced_is_kept(settings: PrepareSettings, tmp_path: Path) -> None:
    to = tmp_path / "prepared"
    prepare(settings, to)
    for file in tmp_path.glob("train.*"):
        shutil.copy(file, to)
    with pytest.raises(
        CorpusError, match=r"train\.de lies inside .*prepared, which is about to be replaced; choose another --to"
    ):
        prepare(replace(settings, train=str(to / "train")), to, overwrite=True)
    assert (to / "train.de").exists()
