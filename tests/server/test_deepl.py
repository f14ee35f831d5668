"""DeepL's routes."""

from pathlib import Path

import pytest
from fastapi.testclient import TestClient
from server.serving import client_of_server

from anydepth.server.key_file import add_key
from anydepth.server.pairs import ServedPair, ServedPairs


def test_texts_are_translated_at_full_depth(client: TestClient, pair: ServedPair) -> None:
    texts = ["katze hund", "hund gern der"]
    expected = [each.line for each in pair.translator.translate(texts)]
    answers = [
        client.post("/v2/translate", json={"text": texts, "source_lang": "DE", "target_lang": "EN-US"}),
        client.post("/v2/translate", data={"text": texts, "source_lang": "de", "target_lang": "en"}),
    ]
    for answer in answers:
        assert answer.json()["translations"] == [
            {"detected_source_language": "DE", "text": text, "billed_characters": len(own)}
            for text, own in zip(expected, texts, strict=True)
        ]


def test_tags_stay_where_they_are_handled(client: TestClient) -> None:
    question = {"text": ["<i>katze</i>"], "target_lang": "EN", "source_lang": "DE", "tag_handling": "html"}
    (translation,) = client.post("/v2/translate", json=question).json()["translations"]
    assert (translation["text"][:3], translation["text"][-4:]) == ("<i>", "</i>")


def test_the_source_is_found_where_it_is_not_given(client: TestClient) -> None:
    texts = ["Der Hund läuft gern und schläft.", "Le chien dort et le chat court aussi."]
    answer = client.post("/v2/translate", json={"text": texts[1:], "target_lang": "DE"}).json()
    assert [each["detected_source_language"] for each in answer["translations"]] == ["FR"]


@pytest.mark.parametrize(
    ("question", "sentence"),
    [
        ({}, "missing text parameter"),
        ({"text": ["a"]}, "missing target_lang parameter"),
        ({"text": "a", "target_lang": "EN"}, "text"),
        ({"text": ["a"], "target_lang": "ZZ"}, "zz is not supported"),
        ({"text": ["a"] * 101, "target_lang": "EN"}, "exceeds batch limit"),
    ],
)
def test_errors_are_messages(client: TestClient, question: dict[str, object], sentence: str) -> None:
    answer = client.post("/v2/translate", json=question)
    assert answer.status_code == 400
    assert sentence in answer.json()["message"]


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_languages_are_sources_or_targets(client: TestClient, method: str) -> None:
    sources, targets = (client.request(method, "/v2/languages", params={"type": kind}) for kind in ("source", "target"))
    assert [each["language"] for each in sources.json()] == ["DE", "FR"]
    assert [each["language"] for each in targets.json()] == ["DE", "EN"]


def test_usage_counts_the_characters_of_a_key(pairs: ServedPairs, tmp_path: Path) -> None:
    keys = {name: add_key(tmp_path / "keys.json", name) for name in ("anna", "ben")}
    client = client_of_server(pairs, keys=tmp_path / "keys.json")

    def headers(name: str) -> dict[str, str]:
        return {"Authorization": f"DeepL-Auth-Key {keys[name]}"}

    question = {"text": ["katze"], "source_lang": "DE", "target_lang": "EN"}
    assert client.post("/v2/translate", json=question, headers=headers("anna")).status_code == 200
    counts = [client.get("/v2/usage", headers=headers(name)).json()["character_count"] for name in keys]
    assert counts == [5, 0]
    refused = client.post("/v2/translate", json=question)
    assert (refused.status_code, list(refused.json())) == (403, ["message"])
