"""Replay: records against stepping and against slow references, and candidates against loops over
sentences."""

from dataclasses import replace

import numpy as np
import pytest
import reference
import torch
from adapters import ADAPTER, adapted_model
from tiny import BLOCKS, TARGET_VOCAB, tiny_pairs
from torch import Tensor
from variations import MARIAN
from vocabulary.selections import table, table_words
from walks import PATTERNS, THRESHOLD_POLICIES, model_for, with_ends

from anydepth.exits.adaptive import AdaptiveTransformer
from anydepth.exits.flops import DecoderShape, no_decision, sentence_flops
from anydepth.exits.parsing import parse_policy, threshold_policy
from anydepth.exits.thresholds import StateSignal, ThresholdDecisions, ThresholdExit
from anydepth.model.cache import DecoderCache
from anydepth.search.beam import search
from anydepth.search.decoding import SearchSettings
from anydepth.text.batches import make_source
from anydepth.text.tokenizer import BOS, EOS
from anydepth.text.tokens import TokenPairs, TokenSide
from anydepth.tuning import replay as replaying
from anydepth.tuning.replay import ReplayRecord, chosen_exits, record, recorded_exits, replay
from anydepth.vocabulary.lexical_table import TableSelection
from anydepth.vocabulary.selection import CandidateWords

PAIRS, CANDIDATES = 5, 9
POLICIES = list(THRESHOLD_POLICIES)


def policy_of(text: str, model: AdaptiveTransformer) -> ThresholdExit:
    policy = parse_policy(text, model)
    assert isinstance(policy, ThresholdExit)
    return policy


def sentences(pairs: TokenPairs) -> list[tuple[list[int], list[int]]]:
    """The pairs in the order of a record, shortest first, as sources with EOS and targets with
    EOS."""
    numbers = sorted(range(len(pairs)), key=lambda number: max(len(pairs.source(number)), len(pairs.target(number))))
    return [([*pairs.source(number).tolist(), EOS], [*pairs.target(number).tolist(), EOS]) for number in numbers]


def random_candidates(*, seed: int = 1) -> np.ndarray:
    """Thresholds, among them those that always and that never stop."""
    candidates = np.round(np.random.default_rng(seed).random((CANDIDATES, BLOCKS - 1)), 5)
    candidates[0], candidates[1], candidates[2], candidates[3, 0], candidates[4, 1:] = 0, 1, [1, 0, 1], 1, [0.4, 1]
    return candidates


@torch.no_grad()
def signals_by_stepping(
    model: AdaptiveTransformer, policy: ThresholdExit, source: list[int], targets: list[int]
) -> Tensor:
    """The signals (decision, time) of one sentence, position by position through all blocks, by the
    policy's own signal."""
    memory = model.encode(torch.tensor([source]), torch.ones(1, len(source), dtype=torch.bool))
    cache = DecoderCache.start(memory, torch.ones(1, len(source), dtype=torch.bool))
    columns = []
    for token in [BOS, *targets[:-1]]:
        signal, seen = policy.new_signal(CandidateWords(model)), []

        def listen(
            n: int, hidden: Tensor, planned: Tensor, signal: object = signal, seen: list[Tensor] = seen
        ) -> Tensor:
            if n == 0:
                signal.start(hidden)  # type: ignore[attr-defined]
            elif n < BLOCKS:
                seen.append(signal.after(n, hidden))  # type: ignore[attr-defined]
                signal.leave(torch.tensor([False]))  # type: ignore[attr-defined]
            return planned

        model.step(torch.tensor([token]), cache, torch.tensor([BLOCKS]), listen)
        columns.append(torch.cat(seen))
    return torch.stack(columns, dim=1)


@pytest.mark.parametrize("text", POLICIES)
def test_recorded_signals_are_those_of_stepping_at_full_depth(text: str) -> None:
    model, pairs = model_for(text), tiny_pairs(PAIRS)
    policy = policy_of(text, model)
    stepped = torch.cat(
        [signals_by_stepping(model, policy, source, targets) for source, targets in sentences(pairs)], dim=1
    )
    recorded = record(model, pairs, policy)
    np.testing.assert_allclose(recorded.signals, stepped, atol=2e-5)
    lengths = [len(targets) for _, targets in sentences(pairs)]
    assert recorded.starts.tolist() == [sum(lengths[:number]) for number in range(PAIRS)]
    assert len(set(lengths)) > 2, "sentences differ in length, or their order could be swapped"


@torch.no_grad()
def test_recorded_likelihoods_and_signals_are_those_of_what_adapters_make_of_the_states() -> None:
    model, pairs = adapted_model("confidence:0.5"), tiny_pairs(PAIRS)
    recorded, likelihoods, signals = record(model, pairs, policy_of("confidence:0.5", model)), [], []
    for source, targets in sentences(pairs):
        inputs, words = torch.tensor([[BOS, *targets[:-1]]]), torch.tensor([source])
        states = model.decode(inputs, model.encode(words, words >= 0), words >= 0)[:, 0]
        seen = [adapter(own) for adapter, own in zip(model.exit_adapters, states[:-1], strict=True)]
        said = torch.stack([own @ model.classifier(n).t() for n, own in enumerate([*seen, states[-1]], 1)])
        likelihoods.append(said.log_softmax(-1)[:, range(len(targets)), targets])  # (block, time)
        signals.append(said[:-1].softmax(-1).amax(-1))
    np.testing.assert_allclose(recorded.log_likelihoods, torch.cat(likelihoods, dim=1), atol=1e-4)
    np.testing.assert_allclose(recorded.signals, torch.cat(signals, dim=1), atol=2e-5)


@torch.no_grad()
def test_recorded_likelihoods_are_those_with_the_bias_of_the_words() -> None:
    model, pairs = model_for(POLICIES[0], *MARIAN), tiny_pairs(PAIRS)
    policy = policy_of(POLICIES[0], model)
    recorded, expected = record(model, pairs, policy), []
    for source, targets in sentences(pairs):
        inputs, words = torch.tensor([[BOS, *targets[:-1]]]), torch.tensor([source])
        states = model.decode(inputs, model.encode(words, words >= 0), words >= 0)[:, 0]
        logits = torch.stack([own @ model.classifier(n).t() for n, own in enumerate(states, 1)]) + model.output_bias
        expected.append(logits.log_softmax(-1)[:, range(len(targets)), targets])  # (block, time)
    np.testing.assert_allclose(recorded.log_likelihoods, torch.cat(expected, dim=1), atol=1e-4)
    model.output_bias.zero_()
    assert np.abs(record(model, pairs, policy).log_likelihoods - recorded.log_likelihoods).max() > 0.1


@pytest.mark.parametrize("classifiers", ["untied", "shared", "tied"])
@torch.no_grad()
def test_recorded_likelihoods_are_those_of_separate_teacher_forcing(classifiers: str) -> None:
    text = POLICIES[0]
    model, pairs = model_for(text, f"model.classifiers={classifiers}"), tiny_pairs(PAIRS)
    expected: list[list[float]] = [[] for _ in range(BLOCKS)]
    for source, targets in sentences(pairs):
        states = reference.decode(model, [BOS, *targets[:-1]], reference.encode(model, source), [BLOCKS] * len(targets))
        for n in range(1, BLOCKS + 1):
            losses = [
                reference.token_loss(model.classifier(n), states[n][t], target, 0.0) for t, target in enumerate(targets)
            ]
            expected[n - 1] += [-loss.item() for loss in losses]
    np.testing.assert_allclose(record(model, pairs, policy_of(text, model)).log_likelihoods, expected, atol=1e-4)


def exits_by_loops(signals: np.ndarray, candidates: np.ndarray) -> list[list[int]]:
    exits = []
    for thresholds in candidates:
        row = []
        for position in range(signals.shape[1]):
            left = len(signals) + 1
            for n, threshold in enumerate(thresholds, 1):
                if threshold == 0 or signals[n - 1, position] > np.float32(threshold):
                    left = n
                    break
            row.append(left)
        exits.append(row)
    return exits


def test_exits_are_those_of_a_loop_over_candidates_positions_and_blocks() -> None:
    signals = np.random.default_rng(3).random((BLOCKS - 1, 11)).astype(np.float32)
    signals[:, 4], signals[:, 5] = 0, 1
    candidates = random_candidates()
    exits = chosen_exits(signals, candidates)
    assert exits.tolist() == exits_by_loops(signals, candidates)
    assert exits[0].tolist() == [1] * 11, "a threshold of 0 always stops, even where the signal is 0"
    assert exits[1].tolist() == [BLOCKS] * 11, "a threshold of 1 never does, even where the signal is 1"
    assert exits[2].tolist() == [2] * 11
    assert len(np.unique(exits)) == BLOCKS


@pytest.mark.parametrize("text", POLICIES)
@torch.no_grad()
def test_every_mixture_of_0_and_1_replays_the_exits_that_the_rule_gives_the_recorded_states(text: str) -> None:
    model, pairs = model_for(text), tiny_pairs(2)
    recorded = record(model, pairs, policy_of(text, model))
    every = []
    for source, targets in sentences(pairs):
        states = reference.decode(model, [BOS, *targets[:-1]], reference.encode(model, source), [BLOCKS] * len(targets))
        every += [[states[n][t] for n in range(BLOCKS + 1)] for t in range(len(targets))]
    policies = [policy_of(with_ends(text, pattern), model) for pattern in PATTERNS]
    exits = recorded_exits(recorded, np.array([policy.thresholds for policy in policies]))
    for policy, own in zip(policies, exits.tolist(), strict=True):
        assert own == [
            reference.threshold_exit(model, states, THRESHOLD_POLICIES[text], policy.thresholds) for states in every
        ]


def test_a_signal_that_equals_its_threshold_goes_on_in_replay_as_in_decoding() -> None:
    words = CandidateWords(model_for("confidence"))
    values = [0.1, 0.3, 0.5, 0.70001, 0.99999]  # most have no exact binary form

    class Given(StateSignal):
        def after(self, n: int, hidden: Tensor) -> Tensor:
            return torch.tensor(values)

    for threshold in values:
        decisions, planned = ThresholdDecisions(words, (threshold,), Given()), torch.full((len(values),), 2)
        stepped = decisions.revise(1, torch.zeros(len(values), 3), planned)
        replayed = chosen_exits(np.array([values], dtype=np.float32), np.array([[threshold]]))
        assert replayed.tolist() == [stepped.tolist()]
        assert stepped.tolist() == [1 if value > threshold else 2 for value in values]


@pytest.mark.parametrize("changes", [(), (ADAPTER,)], ids=["plain", "adapters"])
@pytest.mark.parametrize("text", POLICIES)
def test_figures_of_a_candidate_are_those_of_a_loop_over_sentences(text: str, changes: tuple[str, ...]) -> None:
    model, pairs = model_for(text, *changes), tiny_pairs(PAIRS)
    policy = policy_of(text, model)
    recorded, candidates = record(model, pairs, policy), random_candidates()
    shape = DecoderShape.of(model.config, TARGET_VOCAB)
    rows = recorded_exits(recorded, candidates).tolist()
    if not text.startswith("shortlist"):
        assert rows == exits_by_loops(recorded.signals, candidates)
    replayed = replay(recorded, candidates)
    for number, (row, thresholds) in enumerate(zip(rows, candidates.tolist(), strict=True)):
        cost = threshold_policy(policy.family, thresholds, model).cost
        flops, full, at = 0, 0, 0
        for source, targets in sentences(pairs):
            exits = row[at : at + len(targets)]
            flops += sentence_flops(shape, exits, len(source), cost)
            full += sentence_flops(shape, [BLOCKS] * len(targets), len(source), no_decision)
            at += len(targets)
        likelihoods = [float(recorded.log_likelihoods[left - 1, position]) for position, left in enumerate(row)]
        assert at == len(row)
        assert replayed.average_exits[number] == pytest.approx(sum(row) / len(row), rel=1e-12)
        assert replayed.flops_shares[number] == pytest.approx(flops / full, rel=1e-12)
        assert replayed.log_likelihoods[number] == pytest.approx(sum(likelihoods) / len(likelihoods), rel=1e-5)
    assert any(max(row[:2]) < BLOCKS for row in rows[3:]), "some sentence never calls the last block"


def test_candidates_are_replayed_alike_in_chunks_of_any_size(monkeypatch: pytest.MonkeyPatch) -> None:
    model, pairs = model_for(POLICIES[0]), tiny_pairs(PAIRS)
    recorded, candidates = record(model, pairs, policy_of(POLICIES[0], model)), random_candidates()
    together = replay(recorded, candidates)
    for elements in (1, 4 * recorded.signals.shape[1]):  # one candidate at a time; 4, 4 and 1
        monkeypatch.setattr(replaying, "CHUNK_ELEMENTS", elements)
        in_parts = replay(recorded, candidates)
        for name in ("average_exits", "flops_shares", "log_likelihoods"):
            np.testing.assert_array_equal(getattr(in_parts, name), getattr(together, name))


def test_a_record_does_not_depend_on_what_is_computed_together(monkeypatch: pytest.MonkeyPatch) -> None:
    model, pairs = model_for(POLICIES[0]), tiny_pairs(PAIRS)
    together = record(model, pairs, policy_of(POLICIES[0], model))
    monkeypatch.setattr(replaying, "BATCH_TOKENS", 1)
    one_by_one = record(model, pairs, policy_of(POLICIES[0], model))
    for name in ReplayRecord.__dataclass_fields__.keys() - {"policy", "shape"}:
        np.testing.assert_allclose(getattr(one_by_one, name), getattr(together, name), atol=2e-5)


@pytest.mark.parametrize("text", POLICIES)
@pytest.mark.parametrize("n", [1, 2, BLOCKS])
def test_thresholds_that_fix_the_exit_cost_in_replay_what_they_cost_in_decoding(text: str, n: int) -> None:
    thresholds = [0.0 if block >= n else 1.0 for block in range(1, BLOCKS)]  # n = 1: all 0; n = N: all 1
    model = model_for(text)
    family = text.rpartition(":")[0]
    policy = policy_of(f"{family}:{','.join(map(str, thresholds))}", model)
    sources = [tiny_pairs(8, seed=4).source(number).tolist() for number in range(8)]
    found = search(model, *make_source(sources), policy, SearchSettings(beam=2, length_ratio=1.0, length_offset=2))
    outputs = [hypotheses[0] for hypotheses in found]
    assert len({len(output.tokens) for output in outputs}) > 3, "outputs of several lengths, or this shows little"

    shape, both = DecoderShape.of(model.config, TARGET_VOCAB), list(zip(sources, outputs, strict=True))
    flops = sum(sentence_flops(shape, output.exits, len(source) + 1, policy.cost) for source, output in both)
    full = sum(
        sentence_flops(shape, [BLOCKS] * len(output.exits), len(source) + 1, no_decision) for source, output in both
    )
    exits = [left for output in outputs for left in output.exits]
    # A record ends every target with EOS, which stands here for the last token whether or not it
    # was EOS.
    own = TokenPairs(
        TokenSide.from_sentences(sources), TokenSide.from_sentences([output.tokens[:-1] for output in outputs])
    )
    replayed = replay(record(model, own, policy), np.array([thresholds]))
    assert replayed.average_exits.tolist() == [sum(exits) / len(exits)] == [n]
    assert replayed.flops_shares.tolist() == pytest.approx([flops / full], rel=1e-12)


def test_a_model_of_one_block_has_nothing_to_decide() -> None:
    model, pairs = model_for("confidence:1", "model.blocks=1"), tiny_pairs(PAIRS)
    recorded = record(model, pairs, policy_of("confidence:1", model))
    replayed = replay(recorded, np.zeros((2, 0)))
    assert recorded.signals.shape == (0, sum(len(targets) for _, targets in sentences(pairs)))
    assert replayed.average_exits.tolist() == [1, 1]
    assert replayed.flops_shares.tolist() == [1, 1]


def test_a_record_is_that_of_full_depth_whatever_the_thresholds_of_the_policy() -> None:
    pairs, (early, late) = tiny_pairs(PAIRS), ("confidence:0", "confidence:1")
    model = model_for(early)
    np.testing.assert_array_equal(
        record(model, pairs, policy_of(early, model)).signals, record(model, pairs, policy_of(late, model)).signals
    )


@pytest.mark.parametrize("text", POLICIES)
def test_with_selected_words_signals_are_those_among_them_and_each_sentence_costs_its_own_number(text: str) -> None:
    """FLOPs are those of a loop over sentences, likelihoods those among all words."""
    selection = TableSelection(table(always=range(2, 11)), per_piece=3)  # more than the shortlist's words
    model, pairs = model_for(text), tiny_pairs(PAIRS)
    policy = policy_of(text, model)
    plain, recorded, candidates = (
        record(model, pairs, policy),
        record(model, pairs, policy, selection),
        random_candidates(),
    )
    shape, at = DecoderShape.of(model.config, TARGET_VOCAB), 0
    rows, replayed = recorded_exits(recorded, candidates).tolist(), replay(recorded, candidates)
    sizes, flops, full = [], [0] * len(rows), 0
    for source, targets in sentences(pairs):
        size = len(table_words(selection, source))
        sizes.append(size)
        assert recorded.words[at : at + len(targets)].tolist() == [size] * len(targets)
        for number, (row, thresholds) in enumerate(zip(rows, candidates.tolist(), strict=True)):
            cost = threshold_policy(policy.family, thresholds, model).cost
            exits = row[at : at + len(targets)]
            flops[number] += sentence_flops(replace(shape, vocab=size), exits, len(source), cost)
        full += sentence_flops(shape, [BLOCKS] * len(targets), len(source), no_decision)
        at += len(targets)
    assert len(set(sizes)) > 1, "sentences differ in their words, or this shows little"
    assert replayed.flops_shares.tolist() == pytest.approx([each / full for each in flops], rel=1e-12)
    np.testing.assert_allclose(recorded.log_likelihoods, plain.log_likelihoods, atol=1e-6)
    is_of_words = not text.startswith(("geometric", "similarity"))
    assert np.allclose(recorded.signals, plain.signals) != is_of_words
