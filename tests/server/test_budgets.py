"""The budgets that a run offers."""

from itertools import pairwise
from pathlib import Path

import pytest
from fastapi.testclient import TestClient
from server.serving import sample_run

from anydepth.inference.engines.names import AUTOMATIC
from anydepth.server.budgets import MOST_PLANS, Budget
from anydepth.server.pairs import ServedPair, load_pairs


def test_offers_of_a_tuned_run_get_better_and_end_at_full_depth(client: TestClient, pair: ServedPair) -> None:
    offers = client.get("/depths", params={"source": "de", "target": "en"}).json()
    *below, full = offers
    assert below, "else this shows little"
    assert full["is_full_depth"] and full["policy"] == "fixed:3" and full["flops"] == 1.0
    assert not any(offer["is_full_depth"] for offer in below)
    assert [offer["flops"] for offer in below] == sorted(offer["flops"] for offer in below)
    assert all(one["bleu"] < two["bleu"] for one, two in pairwise(below))
    for offer in offers:
        plan = pair.budgets.plan(Budget(policy=offer["policy"], vocabulary=offer["vocabulary"]), 0)
        assert (plan.policy.name, plan.vocabulary) == (offer["policy"], offer["vocabulary"])


def test_offers_of_a_run_that_was_not_tuned_are_its_exits(client: TestClient) -> None:
    offers = client.get("/depths", params={"source": "fr", "target": "de"}).json()
    assert [offer["policy"] for offer in offers] == ["fixed:1", "fixed:2", "fixed:3"]
    assert [offer["is_full_depth"] for offer in offers] == [False, False, True]
    assert offers[0]["flops"] < offers[1]["flops"] < offers[2]["flops"] == 1.0
    assert [(offer["time"], offer["bleu"]) for offer in offers] == [(None, None)] * 3


@pytest.mark.parametrize(
    ("asked", "sentence"),
    [
        ({}, "Invalid request: missing source parameter"),
        ({"source": "de"}, "Invalid request: missing target parameter"),
        ({"source": "de", "target": "zz"}, "zz is not supported"),
    ],
)
def test_budgets_of_a_pair_that_there_is_not_are_refused(
    client: TestClient, asked: dict[str, str], sentence: str
) -> None:
    answer = client.get("/depths", params=asked)
    assert (answer.status_code, answer.json()) == (400, {"error": sentence})


def test_plans_are_kept_but_not_without_bound(pair: ServedPair) -> None:
    plan = pair.budgets.plan(Budget(policy="fixed:2"), 0)
    assert pair.budgets.plan(Budget(policy="fixed:2"), 0) is plan
    for number in range(MOST_PLANS + 5):
        pair.budgets.plan(Budget(policy=f"confidence:0.{number + 1},0.5"), 0)
    assert len(pair.budgets.plans) == MOST_PLANS
    assert pair.budgets.known_plan(Budget(policy="fixed:2"), 0) is None, "the oldest is forgotten"
    assert pair.budgets.plan(Budget(), 0).policy.name == "fixed:3"


def test_a_beam_that_the_server_is_told_goes_before_that_of_the_run(tmp_path: Path, pair: ServedPair) -> None:
    run = sample_run("exits", tmp_path / "run")
    wider = pair.budgets.plan(Budget(), 0).settings.beam + 1
    pairs = load_pairs([run], engine=AUTOMATIC, int8=False, threads=1, beam=wider)
    try:
        assert pairs.pair("de", "en").budgets.plan(Budget(), 0).settings.beam == wider
    finally:
        pairs.close()
