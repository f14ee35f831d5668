"""API keys: what is stored, and who gets in."""

import json
from pathlib import Path

import pytest
from server.serving import asked, client_of_server

from anydepth.errors import UsageError
from anydepth.server.key_file import KeyRing, add_key, key_hash, load_keys, remove_key
from anydepth.server.pairs import ServedPairs


def test_a_file_holds_hashes_and_no_keys(tmp_path: Path) -> None:
    file = tmp_path / "keys.json"
    keys = [add_key(file, name) for name in ("anna", "ben")]
    assert len(set(keys)) == 2
    text = file.read_text(encoding="utf-8")
    assert not any(key in text for key in keys)
    assert [each["sha256"] for each in json.loads(text)["keys"]] == list(map(key_hash, keys))


def test_a_key_is_found_until_it_is_removed(tmp_path: Path) -> None:
    file = tmp_path / "keys.json"
    anna, ben = add_key(file, "anna", requests_per_minute=7), add_key(file, "ben")
    ring = KeyRing(file)
    assert [(found.name, found.requests_per_minute) for found in (ring.find(anna), ring.find(ben)) if found] == [
        ("anna", 7),
        ("ben", None),
    ]
    assert ring.find(anna + "x") is ring.find("") is ring.find("\ud800") is None
    remove_key(file, "anna")
    assert ring.find(anna) is None
    carl = add_key(file, "carl")
    found = ring.find(carl)
    assert found is not None and found.name == "carl"


def test_a_server_whose_keys_are_lost_lets_nobody_in(tmp_path: Path) -> None:
    file = tmp_path / "keys.json"
    key = add_key(file, "anna")
    ring = KeyRing(file)
    file.write_text("{", encoding="utf-8")
    assert ring.find(key) is None
    file.unlink()
    assert ring.find(key) is None


def test_names_are_plain_and_used_once(tmp_path: Path) -> None:
    file = tmp_path / "keys.json"
    add_key(file, "anna")
    with pytest.raises(UsageError, match="has a key anna already"):
        add_key(file, "anna")
    with pytest.raises(UsageError, match="is no name of a key"):
        add_key(file, "../x")
    with pytest.raises(UsageError, match="has no key ben; it has: anna"):
        remove_key(file, "ben")


def test_a_file_that_is_none_is_named(tmp_path: Path) -> None:
    file = tmp_path / "keys.json"
    with pytest.raises(UsageError, match=r"keys.json is not there; make it with `anydepth keys add"):
        load_keys(file)
    for text in ("", "[]", '{"keys": [{"name": "a", "sha256": "x", "created": ""}]}'):
        file.write_text(text, encoding="utf-8")
        with pytest.raises(UsageError, match=r"keys.json cannot be read as API keys"):
            load_keys(file)


def test_a_key_is_taken_from_the_body_the_query_and_the_header(pairs: ServedPairs, tmp_path: Path) -> None:
    key = add_key(tmp_path / "keys.json", "anna")
    client = client_of_server(pairs, keys=tmp_path / "keys.json")
    bearer = {"Authorization": f"Bearer {key}"}
    answers = [
        client.post("/translate", json=asked("katze", api_key=key)),
        client.post("/translate", data=asked("katze", api_key=key)),
        client.post("/translate", params=asked("katze", api_key=key)),
        client.post("/translate", json=asked("katze"), headers=bearer),
        client.get("/metrics", headers=bearer),
    ]
    assert [answer.status_code for answer in answers] == [200] * 5


def test_without_a_key_nothing_is_translated(pairs: ServedPairs, tmp_path: Path) -> None:
    add_key(tmp_path / "keys.json", "anna")
    client = client_of_server(pairs, keys=tmp_path / "keys.json")
    missing, wrong = client.post("/translate", json=asked("a")), client.post("/detect", data={"q": "a", "api_key": "x"})
    assert (missing.status_code, wrong.status_code) == (403, 403)
    assert missing.json() == {"error": "Please contact the server operator to get an API key"}
    assert wrong.json() == {"error": "Invalid API key"}
    assert client.get("/metrics").status_code == 403
    assert client.get("/languages").status_code == client.get("/health").status_code == 200
