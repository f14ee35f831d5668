"""LibreTranslate's routes: its answers, its errors in its words, and a budget for each request."""

import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from fastapi.testclient import TestClient
from server.serving import SOURCES, asked, client_of_server

from anydepth.server.pairs import ServedPair, ServedPairs
from anydepth.server.serving_limits import ServingLimits

TEXT = "Katze hund.  Gern läuft der hund!\n\nUnd schläft."
WISHES: list[dict[str, Any]] = [
    {},
    {"policy": "fixed:1"},
    {"policy": "fixed:3", "vocabulary": "full"},
    {"policy": "fixed:2", "vocabulary": "table:7"},
    {"policy": "confidence:0.9,0.8"},
    {"average_exit": 2},
    {"average_exit": 3, "flops": 1, "vocabulary": "full"},
    {"bleu_drop": 100},
]


def expected(pair: ServedPair, sentences: list[str], wish: dict[str, Any]) -> list[str]:
    """What the translator itself gives."""
    policy, vocabulary = wish.get("policy"), wish.get("vocabulary")
    measures = {name: value for name, value in wish.items() if name not in ("policy", "vocabulary")}
    if measures:
        from anydepth.runs.operating_points import Wish

        point, _ = pair.translator.operating_point(Wish(**measures), vocabulary=vocabulary)
        policy, vocabulary = point.policy, point.vocabulary
    return [each.line for each in pair.translator.translate(sentences, policy=policy, vocabulary=vocabulary)]


@pytest.mark.parametrize("wish", WISHES, ids=str)
def test_a_budget_gives_what_the_translator_gives(client: TestClient, pair: ServedPair, wish: dict[str, Any]) -> None:
    answer = client.post("/translate", json=asked(SOURCES[:5], **wish))
    assert answer.status_code == 200, answer.text
    assert answer.json() == {"translatedText": expected(pair, SOURCES[:5], wish)}


def test_budgets_side_by_side_do_not_touch_each_other(client: TestClient, pair: ServedPair) -> None:
    questions = [(wish, SOURCES[number % 8]) for number in range(8) for wish in WISHES]
    with ThreadPoolExecutor(8) as threads:
        answers = list(threads.map(lambda each: client.post("/translate", json=asked(each[1], **each[0])), questions))
    found = [answer.json()["translatedText"] for answer in answers]
    assert found == [expected(pair, [source], wish)[0] for wish, source in questions]
    assert len(set(found)) > 8, "else this shows little"


def test_spaces_and_line_breaks_come_back(client: TestClient, pair: ServedPair) -> None:
    first, second, third = expected(pair, ["Katze hund.", "Gern läuft der hund!", "Und schläft."], {})
    assert client.post("/translate", json=asked(TEXT)).json() == {"translatedText": f"{first}  {second}\n\n{third}"}


def test_json_forms_and_queries_are_answered_alike(client: TestClient) -> None:
    question = asked("katze hund", average_exit=2, exits=True)
    strings = {name: str(value) for name, value in question.items()}
    answers = [
        client.post("/translate", json=question),
        client.post("/translate", data=strings),
        client.post("/translate", params=strings),
        client.post("/translate", files={name: (None, value) for name, value in strings.items()}),
    ]
    assert [answer.status_code for answer in answers] == [200] * 4
    texts = [answer.json()["translatedText"] for answer in answers]
    assert texts == texts[:1] * 4
    assert all("depth" in answer.json() for answer in answers)


def test_a_list_is_answered_by_lists(client: TestClient) -> None:
    answer = client.post("/translate", json=asked(["katze", "hund gern", " "], alternatives=1, exits=True)).json()
    assert {name: len(values) for name, values in answer.items()} == {
        "translatedText": 3,
        "alternatives": 3,
        "depth": 3,
    }
    assert answer["translatedText"][2] == " "
    one = client.post("/translate", json=asked("katze", alternatives=1)).json()
    assert one["alternatives"] == answer["alternatives"][0]


def test_alternatives_are_the_next_best_and_differ(client: TestClient, pair: ServedPair) -> None:
    answer = client.post("/translate", json=asked("katze hund gern", alternatives=3)).json()
    (best,) = pair.translator.translate(["katze hund gern"], beam=4, best=4)
    texts = [each.line for each in best.alternatives]
    assert answer["translatedText"] == texts[0]
    assert answer["alternatives"] == [text for text in dict.fromkeys(texts) if text != texts[0]]


def test_html_keeps_its_tags(client: TestClient, pair: ServedPair) -> None:
    answer = client.post("/translate", json=asked('<p class="a">katze hund</p><script>katze</script>', format="html"))
    (text,) = expected(pair, ["katze hund"], {})
    assert answer.json() == {"translatedText": f'<p class="a">{text}</p><script>katze</script>'}


def test_the_source_language_is_found_among_those_that_lead_to_the_target(client: TestClient) -> None:
    text = "Der Hund läuft gern und die Katze schläft heute."
    answer = client.post("/translate", json=asked(text, source="auto")).json()
    assert answer["detectedLanguage"]["language"] == "de"
    assert 50 < answer["detectedLanguage"]["confidence"] <= 100
    many = client.post("/translate", json=asked([text, "Where is the dog?"], source="auto")).json()
    assert [found["language"] for found in many["detectedLanguage"]] == ["de", "de"], "only German leads to English"


def test_the_depth_tells_of_every_word(client: TestClient, pair: ServedPair) -> None:
    question = asked("Katze hund. Gern läuft der hund!", exits=True, policy="confidence:0.9,0.8", vocabulary="full")
    depth = client.post("/translate", json=question).json()["depth"]
    plain = pair.translator.translate(
        ["Katze hund.", "Gern läuft der hund!"], policy="confidence:0.9,0.8", vocabulary="full"
    )
    assert (depth["blocks"], depth["policy"], depth["vocabulary"]) == (3, "confidence:0.9,0.8", "full")
    exits = [left for each in plain for left in each.exits]
    assert depth["average_exit"] == pytest.approx(sum(exits) / len(exits))
    assert [each["text"] for each in depth["sentences"]] == [each.text for each in plain]
    assert depth["milliseconds"] > 0
    assert depth["flops_share"] > 0
    for sentence, translation in zip(depth["sentences"], plain, strict=True):
        pieces = [piece for word in sentence["words"] for piece in word["pieces"]]
        assert [piece["text"] for piece in pieces] == translation.tokens[:-1]
        assert [piece["exit"] for piece in pieces] == translation.exits[:-1]
        assert all(len(piece["passed"]) == piece["exit"] for piece in pieces)
        assert [piece["passed"][-1] for piece in pieces] == pytest.approx([each["probability"] for each in pieces])
        for word in sentence["words"]:
            assert word["exit"] == max(piece["exit"] for piece in word["pieces"])


ERRORS: list[tuple[dict[str, Any], str]] = [
    ({}, "Invalid request: missing q parameter"),
    ({"q": "", "source": "de", "target": "en"}, "Invalid request: missing q parameter"),
    ({"q": [], "source": "de", "target": "en"}, "Invalid request: missing q parameter"),
    ({"q": "a", "target": "en"}, "Invalid request: missing source parameter"),
    ({"q": "a", "source": "de"}, "Invalid request: missing target parameter"),
    ({"q": "a", "source": "zz", "target": "en"}, "zz is not supported"),
    ({"q": "a", "source": "de", "target": "zz"}, "zz is not supported"),
    ({"q": "a", "source": "auto", "target": "zz"}, "zz is not supported"),
    (asked("a", source="en", target="de"), "German (de) is not available as a target language from English (en)"),
    (asked("a", source="auto", target="fr"), "no language that this server has can be translated to French (fr)"),
    (asked("a", format="pdf"), "pdf format is not supported"),
    ({"q": 5, "source": "de", "target": "en"}, "Invalid request: q: it must be a text or a list of texts"),
    ({"q": ["a", None], "source": "de", "target": "en"}, "Invalid request: q: it must be a text or a list of texts"),
    (asked("a", alternatives=4), "Invalid request: request (4) exceeds alternatives limit (3)"),
    (asked("a", alternatives=-1), "Invalid request: alternatives: input should be greater than or equal to 0"),
    (asked(["a"] * 101), "Invalid request: request (101) exceeds batch limit (100)"),
    (asked("a" * 20_001), "Invalid request: request (20001) exceeds text limit (20000)"),
    (asked("a\0b"), "Invalid request: it has a text with the character U+0000"),
    (asked("a", average_exit="deep"), "Invalid request: average_exit: input should be a valid number"),
    (asked("a", average_exit=0.5), "--average-exit 0.5: no token leaves before block 1; ask for 1 or more"),
    (asked("a", time=0.5), "--time 0.5: the operating points have no times"),
    (asked("a", bleu_drop=0, flops=0.001), "no operating point meets --flops 0.001 --bleu-drop 0; the nearest is"),
    (asked("a", policy="fixed:9"), "fixed:9: this model has exits 1 to 3"),
    (asked("a", policy="deep"), "deep"),
    (
        asked("a", vocabulary="table:9"),
        "table:9 was not measured for this model; choose one of full, table:7",
    ),
    (asked("a", source="fr", target="de", average_exit=2), "this model has no operating points to choose from"),
]


@pytest.mark.parametrize(("question", "sentence"), ERRORS)
def test_what_cannot_be_met_is_refused_in_a_sentence(client: TestClient, question: Any, sentence: str) -> None:
    answer = client.post("/translate", json=question)
    assert answer.status_code == 400
    assert answer.json().keys() == {"error"}
    assert sentence in answer.json()["error"]


BODIES = {
    "open": b"{",
    "list": b"[]",
    "not UTF-8": b"\xff",
    "no number": b'{"q": NaN}',
    "twins": b'{"q": "a", "q": "b"}',
    "deep": b"[" * 100_000,
}


@pytest.mark.parametrize("kind", BODIES)
def test_json_that_is_none_is_refused(client: TestClient, kind: str) -> None:
    body = BODIES[kind]
    answer = client.post("/translate", content=body, headers={"Content-Type": "application/json"})
    assert (answer.status_code, answer.json()["error"][:19]) == (400, "Invalid JSON format")


def test_a_lone_surrogate_is_refused(client: TestClient) -> None:
    body = json.dumps(asked("a\ud800b"))
    answer = client.post("/translate", content=body, headers={"Content-Type": "application/json"})
    assert (answer.status_code, answer.json()["error"][-6:]) == (400, "U+D800")


def test_a_broken_form_is_refused(client: TestClient) -> None:
    answer = client.post("/translate", content=b"--x\r\n", headers={"Content-Type": "multipart/form-data; boundary=y"})
    assert answer.status_code == 400
    assert "error" in answer.json()


def test_languages_are_listed_with_their_targets(client: TestClient) -> None:
    assert client.get("/languages").json() == [
        {"code": "de", "name": "German", "targets": ["en"]},
        {"code": "en", "name": "English", "targets": []},
        {"code": "fr", "name": "French", "targets": ["de"]},
    ]


def test_languages_are_found(client: TestClient) -> None:
    for text, language in [
        ("Wo ist denn nur der Hund?", "de"),
        ("Where is the dog?", "en"),
        ("Où est le chien?", "fr"),
    ]:
        found = client.post("/detect", data={"q": text}).json()
        assert (found[0]["language"], len(found)) == (language, 3)
    assert client.post("/detect", json={}).json() == {"error": "Invalid request: missing q parameter"}


def test_health_and_other_paths(client: TestClient) -> None:
    assert client.get("/health").json() == {"status": "ok"}
    wrong = client.get("/translate")
    assert (wrong.status_code, wrong.json(), wrong.headers["allow"]) == (405, {"error": "Method Not Allowed"}, "POST")
    assert (client.get("/nothing").status_code, client.get("/nothing").json()) == (404, {"error": "Not Found"})


def test_the_spec_has_every_route_and_what_it_takes(client: TestClient) -> None:
    spec = client.get("/spec").json()
    assert set(spec["paths"]) == {
        "/translate", "/detect", "/languages", "/depths", "/health", "/metrics",
        "/v2/translate", "/v2/languages", "/v2/usage",
    }  # fmt: skip
    body = spec["paths"]["/translate"]["post"]["requestBody"]["content"]
    assert set(body) == {"application/json", "application/x-www-form-urlencoded", "multipart/form-data"}
    assert {"q", "average_exit", "exits"} <= set(body["application/json"]["schema"]["properties"])


def test_a_failure_is_logged_and_not_told(pairs: ServedPairs, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*arguments: object, **options: object) -> None:
        raise ZeroDivisionError("a secret")

    client = client_of_server(pairs, raises=False)
    monkeypatch.setattr(pairs.pair("de", "en").desk, "submit", fail)
    answer = client.post("/translate", json=asked("katze"))
    assert answer.status_code == 500
    assert answer.json() == {"error": "something went wrong in the server; its log says what"}


def test_work_that_takes_too_long_is_given_up(pairs: ServedPairs) -> None:
    client = client_of_server(pairs, ServingLimits(seconds=0.0))
    answer = client.post("/translate", json=asked(SOURCES))
    assert answer.status_code == 503
    assert "took longer than 0 seconds" in answer.json()["error"]
    assert answer.headers["retry-after"] == "1"
