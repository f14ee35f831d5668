"""adopt: a run that every verb takes, named on standard output, and out again."""

import re
from pathlib import Path

import pytest
from cli.commands import anydepth, assert_refused, done
from marian_folders import save_opus, small_pairs


@pytest.fixture(scope="module")
def adopted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("adopted")
    save_opus(place / "opus", search={"num_beams": 2, "max_length": 20})
    for side, language in enumerate(("de", "en")):
        for split, lines in (("test", small_pairs()[:12]), ("train", small_pairs()[12:80])):
            text = "".join(f"{pair[side]}\n" for pair in lines)
            (place / f"{split}.{language}").write_text(text, encoding="utf-8")
    outcome = done("adopt", place / "opus", "--to", place / "run")
    assert outcome.out == f"{place / 'run'}\n"
    assert "2+3 blocks of width 24, 261 words, de-en, beam 2; full depth only" in outcome.err
    return place


def test_an_adopted_run_is_taken_by_the_verbs_that_need_no_exits(adopted: Path) -> None:
    run, test = adopted / "run", adopted / "test"
    lines = "".join(f"{german}\n" for german, _ in small_pairs()[:3]).encode()
    translated = done("translate", run, stdin=lines).out
    assert translated.count("\n") == 3 and translated.strip()
    assert done("translate", run, "--engine", "torch", stdin=lines).out == translated
    assert "BLEU" in done("evaluate", run, "--test", test).out
    assert "4 files, all of them as they were written" in done("check", run).err
    exported = Path(done("export", run, "--format", "huggingface").out.strip())
    assert exported == run / "export" / "huggingface-exit3"
    assert "files, all of them as they were written" in done("check", exported).err
    (exported / "vocab.json").write_text("{}", encoding="utf-8")
    assert_refused(anydepth("check", exported), "vocab.json is damaged", "--format huggingface")
    again = adopted / "again"
    done("export", run, "--format", "huggingface", "--to", adopted / "out")
    done("adopt", adopted / "out", "--to", again)
    assert done("translate", again, stdin=lines).out == translated


def test_word_selections_are_learned_from_text_in_its_vocabulary(adopted: Path) -> None:
    run, train, test = adopted / "run", adopted / "train", adopted / "test"
    assert_refused(
        anydepth("vocabulary", run, "--valid", test),
        f"{run} was adopted and has no training data; prepare text in its vocabulary with",
        f"--tokenizer-from {run}",
    )
    languages = ("--source-lang", "de", "--target-lang", "en")
    prepared = ("--train", train, "--valid", test, "--tokenizer-from", run, "--joint", "--to", adopted / "data")
    done("prepare", *languages, *prepared)
    outcome = done("vocabulary", run, "--data", adopted / "data", "--valid", test)
    assert "the run was adopted, and what it was trained on is not known" in outcome.err


def test_what_needs_training_data_or_exits_is_refused_in_one_sentence(adopted: Path) -> None:
    run = adopted / "run"
    told = "was adopted and has no training data"
    assert_refused(anydepth("train", "--resume", "--to", run), told)
    assert_refused(anydepth("score-exits", run), "has one exit, after its last block")
    assert_refused(anydepth("train", "--from", run, "--to", adopted / "new"), told)
    assert_refused(anydepth("tune", run, "--valid", adopted / "test"), "exit")
    assert not (adopted / "new").exists()


def test_a_bad_folder_is_refused_and_nothing_is_written(adopted: Path) -> None:
    outcome = anydepth("adopt", adopted, "--to", adopted / "new")
    assert_refused(outcome, f"{adopted} has no config.json, which every MarianMT model has")
    assert_refused(anydepth("adopt", adopted / "opus", "--to", adopted / "run"), "exists already; choose another --to")
    assert not (adopted / "new").exists()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--minutes", 5], "--minutes is for learning exits, which needs text; give --text FILE, too"),
        (["--trunk", "frozen"], "--trunk is for learning exits, which needs text; give --text FILE, too"),
        (["--text", "MONO", "--trunk", "thawed"], "--trunk thawed is unknown; use trained or frozen"),
        (["--text", "MONO", "--minutes", 0], "--minutes 0 is the time for everything; give one above 0"),
        (["--text", "none.de"], "--text none.de is not a file; give text in the source language"),
        (["--text", "EMPTY"], "has 0 different lines, and exits are learned from at least 1,000; give more text"),
        (["--text", "MONO"], "has 68 different lines, and exits are learned from at least 1,000; give more text"),
        (["--text", "LATIN"], "latin.de line 1 is not valid UTF-8"),
    ],
)
def test_text_and_times_that_teach_nothing_are_refused_and_nothing_is_written(
    adopted: Path, tmp_path: Path, arguments: list[object], words: str
) -> None:
    (tmp_path / "empty.de").write_bytes(b"")
    (tmp_path / "latin.de").write_bytes("größer\n".encode("latin-1") * 1200)
    places = {"MONO": adopted / "train.de", "EMPTY": tmp_path / "empty.de", "LATIN": tmp_path / "latin.de"}
    given = [places.get(str(each), each) for each in arguments]
    assert_refused(anydepth("adopt", adopted / "opus", *given, "--to", tmp_path / "new"), words)
    assert sorted(each.name for each in tmp_path.iterdir()) == ["empty.de", "latin.de"]


@pytest.mark.soak
@pytest.mark.parametrize("trunk", ["trained", "frozen"])
def test_the_whole_way_ends_with_a_table_and_a_run_that_wishes_choose_from(
    adopted: Path, tmp_path: Path, trunk: str
) -> None:
    text = "".join(f"{german}\n" for german, _ in small_pairs(1200))
    (tmp_path / "mono.de").write_text(text, encoding="utf-8")
    options = ("--text", tmp_path / "mono.de", "--minutes", 3, "--trunk", trunk)
    outcome = done("adopt", adopted / "opus", *options, "--to", tmp_path / "run")
    lines = outcome.out.splitlines()
    assert lines[0].split()[:3] == ["policy", "AE", "BLEU"]
    assert re.split(r"\s{2,}", lines[1])[:4] == ["original", "full depth", "3.00", "100.00"]
    assert lines[-1] == str(tmp_path / "run")
    same = r"all [\d,]+ weights of full depth are the original's, bit for bit, and (\d+) of \1 held-out translations"
    assert bool(re.search(same, outcome.err)) == (trunk == "frozen")
    translated = done("translate", tmp_path / "run", "--average-exit", 3, stdin=text.encode()[:200])
    assert translated.out.strip()
    bench = ("--against", "ctranslate2", "--each-point", "--rounds", 1, "--sentences", 4, "--batch", 2, "--beam", 1)
    timed = done("bench", tmp_path / "run", "--test", adopted / "test", *bench)
    assert f"others run {adopted / 'opus'}" in timed.out
