"""Probabilities on the way: those of a forced decoding are those that search saw."""

import math

import pytest
import torch
from selections import SELECTIONS
from tiny import tiny_model

from anydepth.exits.parsing import parse_policy
from anydepth.inference.engines.torch_engine import TorchEngine
from anydepth.inference.passed_blocks import passed_probabilities
from anydepth.search.decoding import SearchSettings

SOURCE = [5, 9, 7, 11, 6]


@pytest.mark.parametrize("selection", [None, *SELECTIONS])
@pytest.mark.parametrize("policy", ["fixed:1", "fixed:4", "confidence:0.2,0.3,0.4"])
def test_the_last_block_passed_has_the_probability_of_the_search(policy: str, selection: str | None) -> None:
    model = tiny_model()
    words = None if selection is None else SELECTIONS[selection](model)
    settings = SearchSettings(beam=1, words=words)
    ((best,),) = TorchEngine(model).search([SOURCE], parse_policy(policy, model), settings)
    passed = passed_probabilities(model, SOURCE, best.tokens, best.exits, words)
    assert [len(each) for each in passed] == best.exits
    assert [each[-1] for each in passed] == pytest.approx([math.exp(score) for score in best.token_scores], rel=1e-4)


def test_blocks_below_have_the_probabilities_of_their_own_classifiers() -> None:
    model = tiny_model("model.classifiers=untied")
    settings = SearchSettings(beam=1)
    ((best,),) = TorchEngine(model).search([SOURCE], parse_policy("fixed:3", model), settings)
    passed = passed_probabilities(model, SOURCE, best.tokens, best.exits, None)
    source = torch.tensor([[*SOURCE, 2]])
    with torch.inference_mode():
        states = model.decode(
            torch.tensor([[1]]), model.encode(source, source >= 0), source >= 0, exits=torch.tensor([[3]])
        )
        for n in (1, 2, 3):
            shares = model.logits_at(n, states[n - 1, 0]).softmax(dim=-1)
            assert passed[0][n - 1] == pytest.approx(float(shares[0, best.tokens[0]]), rel=1e-5)


def test_a_block_without_a_classifier_has_no_probability() -> None:
    model = tiny_model("model.exits=last", "model.classifiers=tied")
    ((best,),) = TorchEngine(model).search([SOURCE], parse_policy("fixed:4", model), SearchSettings(beam=1))
    for probabilities in passed_probabilities(model, SOURCE, best.tokens, best.exits, None):
        assert probabilities[:3] == [None, None, None]
        assert probabilities[3] is not None
