"""Policies that stop at the first block whose signal exceeds its threshold: the rule, the signals,
and both ends of the scale."""

from collections.abc import Callable
from dataclasses import replace

import pytest
import reference
import torch
from hypothesis import given
from hypothesis import strategies as st
from tiny import BATCH, BLOCKS, DIM, TARGET_VOCAB, TIME, tiny_batch
from torch import Tensor
from walks import PATTERNS, THRESHOLD_POLICIES, choices, model_for, walk, with_ends

from anydepth.errors import UsageError
from anydepth.exits.adaptive import AdaptiveTransformer
from anydepth.exits.halting import GeometricHalting
from anydepth.exits.parsing import parse_policy, threshold_policy
from anydepth.exits.thresholds import (
    Confidence,
    HaltProbability,
    Margin,
    ShortlistConfidence,
    Signal,
    Similarity,
    ThresholdExit,
    check_thresholds,
    deciding_exits,
    describe_thresholds,
)
from anydepth.vocabulary.selection import CandidateWords

FAMILIES = ["geometric", "confidence", "margin", "similarity", "shortlist:5"]
CLASSIFIERS = ["untied", "shared", "tied"]


@pytest.mark.parametrize("text", THRESHOLD_POLICIES)
@pytest.mark.parametrize("classifiers", CLASSIFIERS)
def test_every_token_leaves_at_the_first_block_whose_signal_exceeds_its_threshold(text: str, classifiers: str) -> None:
    found = set()
    for seed in (1, 2, 3):
        model, batch = model_for(text, f"model.classifiers={classifiers}", seed=seed), tiny_batch(seed=seed)
        policy = parse_policy(text, model)
        assert isinstance(policy, ThresholdExit)
        exits, _ = walk(model, batch, policy)
        for row in range(BATCH):
            length = int(batch.target_mask[row].sum())
            left, inputs = exits[row, :length].tolist(), batch.target_inputs[row, :length].tolist()
            every = choices(model, batch.source[row][batch.source_mask[row]].tolist(), inputs, left)
            signal = THRESHOLD_POLICIES[text]
            assert left == [reference.threshold_exit(model, states, signal, policy.thresholds) for states in every]
            found |= set(left)
    assert len(found) > 2, "else this shows little"


@pytest.mark.parametrize("text", THRESHOLD_POLICIES)
def test_thresholds_of_0_and_1_anywhere_leave_the_rule_as_it_is_and_ask_for_no_signal(text: str) -> None:
    model, batch, found = model_for(text, seed=2), tiny_batch(seed=2), set()
    for pattern in PATTERNS:
        policy = parse_policy(with_ends(text, pattern), model)
        assert isinstance(policy, ThresholdExit)
        asked: list[int] = []
        exits, logits = walk(
            model,
            batch,
            replace(
                policy, new_signal=lambda words, policy=policy, asked=asked: Asked(policy.new_signal(words), asked)
            ),
        )
        assert set(asked) <= set(deciding_exits(policy.thresholds))
        length = int(batch.target_mask[0].sum())
        left, inputs = exits[0, :length].tolist(), batch.target_inputs[0, :length].tolist()
        every = choices(model, batch.source[0][batch.source_mask[0]].tolist(), inputs, left)
        assert left == [
            reference.threshold_exit(model, states, THRESHOLD_POLICIES[text], policy.thresholds) for states in every
        ], pattern
        words = torch.stack([model.classifier(n) @ states[n] for n, states in zip(left, every, strict=True)])
        torch.testing.assert_close(logits[0, :length], words, atol=1e-4, rtol=1e-4)
        found.add(tuple(sorted(set(exits.flatten().tolist()))))
    assert len(found) > 5, "else this shows little"


class Asked:
    """A signal that notes the blocks after which it was asked for."""

    def __init__(self, signal: Signal, asked: list[int]) -> None:
        self.signal, self.asked, self.depends_on_first = signal, asked, signal.depends_on_first
        self.start, self.pass_by, self.leave, self.word_logits = (
            signal.start,
            signal.pass_by,
            signal.leave,
            signal.word_logits,
        )

    def after(self, n: int, hidden: Tensor) -> Tensor:
        self.asked.append(n)
        return self.signal.after(n, hidden)


def test_only_thresholds_between_0_and_1_decide_and_none_after_a_0() -> None:
    assert deciding_exits([0.5, 0.1, 0.9]) == (1, 2, 3)
    assert deciding_exits([1.0, 0.1, 1.0]) == (2,)
    assert deciding_exits([0.5, 1.0, 0.9, 0.0, 0.4]) == (1, 3)
    assert deciding_exits([0.0, 0.5]) == deciding_exits([1.0, 1.0]) == deciding_exits([]) == ()
    assert deciding_exits([1e-60, 0.5]) == (), "0 in float32"
    assert deciding_exits([1 - 1e-12, 0.5]) == (2,), "1 in float32"


def signal_of(family: str, model: AdaptiveTransformer) -> tuple[Signal, reference.Signal]:
    halting = model.halting
    if family == "geometric":
        assert isinstance(halting, GeometricHalting)
        return HaltProbability(halting), reference.halt_probability
    signals: dict[str, tuple[Signal, reference.Signal]] = {
        "confidence": (Confidence(CandidateWords(model)), reference.confidence),
        "margin": (Margin(CandidateWords(model)), reference.margin),
        "similarity": (Similarity(), reference.similarity),
        "shortlist:5": (ShortlistConfidence(CandidateWords(model), 5), reference.shortlist(5)),
    }
    return signals[family]


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("classifiers", CLASSIFIERS)
@torch.no_grad()
def test_a_signal_is_its_formula_for_the_rows_that_still_run(family: str, classifiers: str) -> None:
    model = model_for(family, f"model.classifiers={classifiers}")
    signal, formula = signal_of(family, model)
    states = torch.randn(BLOCKS + 1, 9, DIM, generator=torch.Generator().manual_seed(3))
    running = torch.arange(9)
    signal.start(states[0])
    for n in range(1, BLOCKS):
        expected = [formula(model, list(states[:, row]), n) for row in running.tolist()]
        torch.testing.assert_close(signal.after(n, states[n, running]), torch.tensor(expected), atol=1e-6, rtol=1e-5)
        is_leaving = running % 3 == n - 1
        signal.leave(is_leaving)
        running = running[~is_leaving]


@pytest.mark.parametrize("words", [TARGET_VOCAB, TARGET_VOCAB + 10])
def test_a_shortlist_of_all_words_is_confidence(words: int) -> None:
    for seed in (1, 2, 3):
        model, batch = model_for("confidence", seed=seed), tiny_batch(seed=seed)
        exits, logits = walk(model, batch, parse_policy("confidence:0.7,0.5,0.6", model))
        short_exits, short_logits = walk(model, batch, parse_policy(f"shortlist:{words}:0.7,0.5,0.6", model))
        assert short_exits.equal(exits)
        torch.testing.assert_close(short_logits, logits)


def test_a_shortlist_of_one_word_is_certain_after_block_1() -> None:
    model, batch = model_for("shortlist"), tiny_batch()
    exits, _ = walk(model, batch, parse_policy("shortlist:1:0.99", model))
    assert set(exits.flatten().tolist()) <= {1, 2}


def saturated(family: str, size: float, *changes: str) -> AdaptiveTransformer:
    """A model whose logits of stopping are all `size`, and whose logits of words go up to |size|
    or, for a negative one, are all alike."""
    model = model_for(family, *changes)
    with torch.no_grad():
        if isinstance(model.halting, GeometricHalting):
            model.halting.stop_score.weight.zero_()
            model.halting.stop_score.bias.fill_(size)
        for classifier in model.classifiers:
            classifier *= 50 * size if size > 0 else 0
    return model


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("size", [None, 200.0, -200.0])
def test_a_threshold_of_0_always_stops_and_of_1_never_does(family: str, size: float | None) -> None:
    model, batch = model_for(family) if size is None else saturated(family, size), tiny_batch()
    for threshold, left in (("0", 1), ("1", BLOCKS), ("0.0", 1), ("1.0", BLOCKS)):
        policy = parse_policy(f"{family}:{threshold}", model)
        exits, logits = walk(model, batch, policy)
        assert exits.equal(torch.full((BATCH, TIME), left))
        assert logits.isfinite().all()


def test_the_saturated_models_reach_the_ends_of_the_scale() -> None:
    states = torch.randn(2, DIM, generator=torch.Generator().manual_seed(3))
    with torch.no_grad():
        for size, ends in (
            (200.0, {"geometric": 1.0, "confidence": 1.0, "margin": 1.0}),
            (-200.0, {"geometric": 0.0, "margin": 0.0}),
        ):
            for family, end in ends.items():
                signal, _ = signal_of(family, saturated(family, size))
                signal.start(states)
                assert signal.after(1, states).tolist() == [end, end]


@given(st.integers(0, 10_000), st.sampled_from([1e-3, 1.0, 30.0]))
def test_no_similarity_lies_outside_0_and_1_even_by_rounding(seed: int, scale: float) -> None:
    states = scale * torch.randn(50, DIM, generator=torch.Generator().manual_seed(seed))
    signal = Similarity()
    for other, expected in ((states, 1.0), (2 * states, 1.0), (-states, 0.0)):
        signal.start(states)
        found = signal.after(1, other)
        assert 0 <= found.min() <= found.max() <= 1
        torch.testing.assert_close(found, torch.full((50,), expected), atol=1e-6, rtol=0)


@given(st.integers(0, 10_000), st.sampled_from([1e-3, 1.0, 30.0, 1000.0]))
def test_no_confidence_or_margin_lies_outside_0_and_1_even_by_rounding(seed: int, scale: float) -> None:
    words = CandidateWords(MODEL)
    states = scale * torch.randn(50, DIM, generator=torch.Generator().manual_seed(seed))
    with torch.no_grad():
        for signal in (Confidence(words), Margin(words), ShortlistConfidence(words, 5)):
            signal.start(states)
            for n in range(1, BLOCKS):
                found = signal.after(n, states)
                assert 0 <= found.min() <= found.max() <= 1
                signal.leave(torch.zeros(50, dtype=torch.bool))


MODEL = model_for("confidence")


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("n", range(1, BLOCKS + 1))
def test_each_exit_has_a_threshold_of_its_own(family: str, n: int) -> None:
    model, batch = model_for(family), tiny_batch()
    thresholds = [1.0] * (n - 1) + [0.0] * (BLOCKS - n)
    exits, _ = walk(model, batch, threshold_policy(family, thresholds, model))
    assert exits.equal(torch.full((BATCH, TIME), n))


@given(st.lists(st.floats(0, 1), min_size=BLOCKS - 1, max_size=BLOCKS - 1))
def test_the_name_gives_back_the_very_same_thresholds(thresholds: list[float]) -> None:
    policy = threshold_policy("confidence", thresholds, MODEL)
    again = parse_policy(policy.name, MODEL)
    assert isinstance(again, ThresholdExit)
    assert again.thresholds == policy.thresholds == tuple(thresholds)
    assert again.name == policy.name


def test_equal_thresholds_are_written_once_and_whole_numbers_without_a_point() -> None:
    assert describe_thresholds([0.5, 0.5, 0.5]) == "0.5"
    assert describe_thresholds([0.5, 0.25, 0.5]) == "0.5,0.25,0.5"
    assert describe_thresholds([1.0, 0.0, 1.0]) == "1,0,1"
    assert describe_thresholds([0.1234561, 0.1234562]) == "0.1234561,0.1234562"
    assert describe_thresholds([]) == "1"


def test_one_threshold_stands_for_all_blocks() -> None:
    assert check_thresholds("x", [0.3], 4) == (0.3, 0.3, 0.3)
    assert check_thresholds("x", [0.3, 0.2, 0.1], 4) == (0.3, 0.2, 0.1)
    assert check_thresholds("x", [0.3], 1) == ()


@pytest.mark.parametrize("threshold", [-0.1, 1.5, float("nan"), float("inf")])
def test_a_threshold_outside_0_and_1_is_refused(threshold: float) -> None:
    with pytest.raises(
        UsageError, match=rf"margin: the threshold {threshold} is not between 0 \(always stop\) and 1 \(never stop\)"
    ):
        threshold_policy("margin", [0.5, threshold, 0.5], MODEL)
    with pytest.raises(
        UsageError, match=rf"x: the threshold {threshold} is not between 0 \(always stop\) and 1 \(never stop\)"
    ):
        check_thresholds("x", [0.5, threshold, 0.5], BLOCKS)


def test_a_family_without_thresholds_is_refused() -> None:
    with pytest.raises(
        UsageError,
        match=r"uniform has no thresholds; those that have: geometric, confidence, margin, similarity, shortlist",
    ):
        threshold_policy("uniform", [0.5] * 3, MODEL)


def test_decisions_of_one_time_step_leave_no_trace_in_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    model, batch = model_for("confidence"), tiny_batch()
    policy = parse_policy("confidence:0.7,0.5,0.6", model)
    words = CandidateWords(model)
    assert policy.decisions(words) is not policy.decisions(words)
    first, second = walk(model, batch, policy), walk(model, batch, policy)
    assert all(mine.equal(theirs) for mine, theirs in zip(first, second, strict=True))


def test_words_are_scored_once_where_the_signal_has_scored_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of confidence only the rows that reach the last block are left to score."""
    model, batch = model_for("confidence"), tiny_batch()
    scored: list[int] = []
    exit_logits = model.exit_logits

    def counted(hidden: Tensor, exits: Tensor, logits_at: Callable[[int, Tensor], Tensor]) -> Tensor:
        assert (exits == BLOCKS).all()
        scored.append(len(hidden))
        return exit_logits(hidden, exits, logits_at)

    monkeypatch.setattr(model, "exit_logits", counted)
    exits, _ = walk(model, batch, parse_policy("confidence:0.9,0.7,0.8", model))
    assert sum(scored) == (exits == BLOCKS).sum()
    assert 0 < sum(scored) < exits.numel()
