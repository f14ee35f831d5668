"""Every policy under beam search: a sentence in a batch is what it is alone, and its exits and
scores are those of teacher forcing."""

import pytest
import reference
import torch
from torch import Tensor
from walks import FEW_EXITS, POLICIES, THRESHOLD_POLICIES, choices, model_for

from anydepth.exits.adaptive import AdaptiveTransformer
from anydepth.exits.parsing import parse_policy
from anydepth.exits.policies import ForcedExits, Policy
from anydepth.exits.thresholds import ThresholdExit
from anydepth.search.beam import Hypothesis, search
from anydepth.search.decoding import SearchSettings
from anydepth.text.batches import make_source
from anydepth.text.tokenizer import BOS, EOS

SENTENCES = [[5, 6, 7, 8, 9, 10], [11, 12], [13, 14, 15, 16], [17], [9, 4, 9, 4, 9]]
SETTINGS = SearchSettings(beam=3, best=3, length_penalty=0.7, length_ratio=1.0, length_offset=4)
FORCED = torch.tensor([[1, 4, 2], [3, 3, 1], [4, 1, 2], [2, 4, 4], [1, 1, 3]])
ALL = [*POLICIES, "forced"]


def setting(text: str, *, seed: int = 1) -> tuple[AdaptiveTransformer, Policy]:
    model = model_for(text, seed=seed)
    return model, ForcedExits(FORCED) if text == "forced" else parse_policy(text, model)


def only(policy: Policy, number: int) -> Policy:
    """The policy for a batch of sentence `number` alone."""
    return ForcedExits(policy.table[[number]]) if isinstance(policy, ForcedExits) else policy


@torch.no_grad()
def forced_scores(model: AdaptiveTransformer, sentence: list[int], best: Hypothesis) -> Tensor:
    """The log-probabilities of the hypothesis' tokens by teacher forcing with its exits."""
    source, mask = make_source([sentence])
    inputs, exits = torch.tensor([[BOS, *best.tokens[:-1]]]), torch.tensor([best.exits])
    states = model.decode(inputs, model.encode(source, mask), mask, exits=exits)[-1, 0]
    rows = [(model.classifier(n) @ hidden).log_softmax(-1) for n, hidden in zip(best.exits, states, strict=True)]
    return torch.stack([row[token] for row, token in zip(rows, best.tokens, strict=True)])


@pytest.mark.parametrize("text", ALL)
@pytest.mark.parametrize("beam", [1, 3])
def test_a_sentence_among_others_has_the_tokens_and_exits_it_has_alone(text: str, beam: int) -> None:
    settings = SearchSettings(beam=beam, best=beam, length_ratio=1.0, length_offset=4)
    model, policy = setting(text, seed=beam)
    together = search(model, *make_source(SENTENCES), policy, settings)
    for number, (sentence, hypotheses) in enumerate(zip(SENTENCES, together, strict=True)):
        (alone,) = search(model, *make_source([sentence]), only(policy, number), settings)
        assert [(best.tokens, best.exits) for best in hypotheses] == [(best.tokens, best.exits) for best in alone]
        assert [best.score for best in hypotheses] == pytest.approx([best.score for best in alone], abs=1e-5)


@pytest.mark.parametrize("text", ALL)
def test_scores_are_those_of_teacher_forcing_with_the_recorded_exits(text: str) -> None:
    lefts: set[int] = set()
    for seed in (1, 2):
        model, policy = setting(text, seed=seed)
        for sentence, hypotheses in zip(
            SENTENCES, search(model, *make_source(SENTENCES), policy, SETTINGS), strict=True
        ):
            assert len(hypotheses) == SETTINGS.beam
            for best in hypotheses:
                scores = forced_scores(model, sentence, best)
                torch.testing.assert_close(torch.tensor(best.token_scores), scores, atol=2e-5, rtol=1e-5)
                assert best.score == pytest.approx(float(scores.sum()) / len(scores) ** 0.7, abs=2e-5)
                lefts |= set(best.exits)
    assert len(lefts) > 2 or text in FEW_EXITS, "else this shows little"


@pytest.mark.parametrize("text", THRESHOLD_POLICIES)
def test_the_exits_of_a_hypothesis_are_those_that_the_rule_gives_its_own_states(text: str) -> None:
    model, policy = setting(text, seed=2)
    assert isinstance(policy, ThresholdExit)
    found = search(model, *make_source(SENTENCES), policy, SETTINGS)
    for sentence, hypotheses in zip(SENTENCES, found, strict=True):
        for best in hypotheses:
            every = choices(model, [*sentence, EOS], [BOS, *best.tokens[:-1]], best.exits)
            signal = THRESHOLD_POLICIES[text]
            assert best.exits == [
                reference.threshold_exit(model, states, signal, policy.thresholds) for states in every
            ]


@pytest.mark.parametrize("family", [text.split(":0")[0] for text in THRESHOLD_POLICIES])
@pytest.mark.parametrize(("threshold", "left"), [(0, "fixed:1"), (1, "fixed:4")])
def test_thresholds_of_0_and_1_translate_as_the_first_and_the_last_exit_do(
    family: str, threshold: int, left: str
) -> None:
    model = model_for(family)
    found, expected = (
        search(model, *make_source(SENTENCES), parse_policy(text, model), SETTINGS)
        for text in (f"{family}:{threshold}", left)
    )
    for mine, theirs in zip(found, expected, strict=True):
        assert [(best.tokens, best.exits) for best in mine] == [(best.tokens, best.exits) for best in theirs]
        assert [best.score for best in mine] == pytest.approx([best.score for best in theirs], abs=1e-5)


def test_a_sentence_has_one_exit_under_sequence_halting_and_sentences_differ() -> None:
    model, policy = setting("sequence")
    found = search(model, *make_source(SENTENCES), policy, SETTINGS)
    own = [{left for best in hypotheses for left in best.exits} for hypotheses in found]
    assert {len(exits) for exits in own} == {1}
    assert len(set.union(*own)) > 1
