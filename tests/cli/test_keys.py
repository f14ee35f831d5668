"""The verbs keys add, list and remove."""

from pathlib import Path

from cli.commands import anydepth, assert_refused, done

from anydepth.server.key_file import KeyRing


def test_keys_are_added_listed_and_removed(tmp_path: Path) -> None:
    file = tmp_path / "keys.json"
    key = done("keys", "add", file, "anna", "--requests-per-minute", 60).out.strip()
    done("keys", "add", file, "ben")
    found = KeyRing(file).find(key)
    assert found is not None and found.name == "anna"
    lines = [line.split("\t") for line in done("keys", "list", file).out.splitlines()]
    assert [(line[0], line[2:]) for line in lines] == [("anna", ["60"]), ("ben", [])]
    assert done("keys", "remove", file, "anna").out == ""
    assert [line.split("\t")[0] for line in done("keys", "list", file).out.splitlines()] == ["ben"]


def test_mistakes_are_refused_in_a_sentence(tmp_path: Path) -> None:
    file = tmp_path / "keys.json"
    assert_refused(anydepth("keys", "list", file), "keys.json is not there")
    done("keys", "add", file, "anna")
    assert_refused(anydepth("keys", "add", file, "anna"), "has a key anna already")
    assert_refused(anydepth("keys", "remove", file, "ben"), "has no key ben; it has: anna")
