"""Beam search against teacher forcing, exhaustive search and slow loops."""

import itertools
import random
from dataclasses import dataclass, field

import pytest
import torch
from torch import Tensor

from anydepth.config.model_settings import DecoderConfig, EncoderConfig, ModelConfig
from anydepth.exits.flops import DecisionCost, no_decision
from anydepth.exits.policies import (
    Decisions,
    FixedExit,
    ForcedExits,
    PlannedDecisions,
    Policy,
    UniformExit,
)
from anydepth.model.source import EncodedSource
from anydepth.model.transformer import Transformer
from anydepth.search.beam import Hypothesis, search
from anydepth.search.decoding import SearchSettings
from anydepth.text.batches import make_source
from anydepth.text.tokenizer import BOS, EOS, PAD, UNK
from anydepth.vocabulary.selection import CandidateWords

BLOCKS = 4
FIXED, UNIFORM = FixedExit(3, BLOCKS), UniformExit(1, BLOCKS)
SENTENCES = [[5, 6, 7, 8, 9, 10], [11, 12], [13, 14, 15, 16]]


def make_model(*, vocab: int = 13, max_length: int = 11, dropout: float = 0.0, sharpness: float = 3.0) -> Transformer:
    torch.manual_seed(1)
    config = ModelConfig(
        blocks=BLOCKS,
        heads=4,
        encoder=EncoderConfig(blocks=2, dim=20, ffn_dim=28),
        decoder=DecoderConfig(dim=12, ffn_dim=32),
        max_length=max_length,
        dropout=dropout,
    )
    model = Transformer(config, source_vocab=17, target_vocab=vocab, is_joint=False)
    with torch.no_grad():
        for weights in model.classifiers:
            weights *= sharpness
    return model.eval()


def translate(
    model: Transformer, sentences: list[list[int]], policy: Policy, settings: SearchSettings
) -> list[list[Hypothesis]]:
    return search(model, *make_source(sentences), policy, settings)


def outputs(hypotheses: list[Hypothesis]) -> list[tuple[list[int], list[int], bool]]:
    return [(hypothesis.tokens, hypothesis.exits, hypothesis.has_finished) for hypothesis in hypotheses]


def many_sentences(count: int) -> list[list[int]]:
    choice = random.Random(3)
    return [[choice.randrange(4, 17) for _ in range(choice.randint(1, 7))] for _ in range(count)]


@torch.no_grad()
def forced_log_probs(model: Transformer, sentence: list[int], tokens: list[int], exits: list[int]) -> Tensor:
    """Log-probabilities of all words at each place of `tokens`, by teacher forcing."""
    source, mask = make_source([sentence])
    states = model.decode(
        torch.tensor([[BOS, *tokens[:-1]]]), model.encode(source, mask), mask, exits=torch.tensor([exits])
    )
    return model.exit_logits(states[-1, 0], torch.tensor(exits)).log_softmax(-1)  # (time, vocab)


def planned_exits(policy: Policy, sentence: list[int], limit: int) -> list[int]:
    source, mask = make_source([sentence])
    exits: list[int] = policy.plan(EncodedSource(source, mask, torch.zeros(*source.shape, 20)), limit=limit)[0].tolist()
    return exits


def reference_beam(
    model: Transformer, sentence: list[int], policy: Policy, settings: SearchSettings
) -> list[tuple[list[int], float]]:
    """Tokens and scores of all hypotheses, best first: beam search with lists and teacher
    forcing."""
    limit = min(
        model.config.max_length, int(-(-settings.length_ratio * (len(sentence) + 1) // 1)) + settings.length_offset
    )
    exits = planned_exits(policy, sentence, limit)
    live: list[tuple[float, list[int]]] = [(0.0, [])]
    done: list[tuple[float, list[int]]] = []
    for t in range(limit):
        candidates = []
        ended: list[tuple[float, list[int]]] = []  # what each hypothesis is if it ends here
        for total, tokens in live:
            log_probs = forced_log_probs(model, sentence, [*tokens, PAD], exits[: t + 1])[-1].tolist()
            candidates += [
                (total + log_probs[word], [*tokens, word])
                for word in range(len(log_probs))
                if word not in (PAD, BOS, UNK)
            ]
            ended.append((total + log_probs[EOS], [*tokens, EOS]))
        candidates = sorted(candidates, key=lambda candidate: -candidate[0])[: 2 * settings.beam]
        done += [candidate for candidate in candidates[: settings.beam] if candidate[1][-1] == EOS]
        live = [candidate for candidate in candidates if candidate[1][-1] != EOS][: settings.beam]
        if len(done) >= settings.beam:
            break
        if t == limit - 1:
            done += [each for each in ended if each not in done]
    scored = [(tokens, total / len(tokens) ** settings.length_penalty) for total, tokens in done]
    return sorted(scored, key=lambda pair: -pair[1])


@pytest.mark.parametrize("beam", [1, 2, 5])
@pytest.mark.parametrize("policy", [FIXED, UNIFORM], ids=lambda policy: policy.name)
def test_scores_are_those_of_teacher_forcing_with_the_recorded_exits(policy: Policy, beam: int) -> None:
    model = make_model()
    found = translate(model, SENTENCES, policy, SearchSettings(beam=beam, best=beam, length_penalty=0.7))
    for sentence, hypotheses in zip(SENTENCES, found, strict=True):
        assert len(hypotheses) == beam
        for hypothesis in hypotheses:
            log_probs = forced_log_probs(model, sentence, hypothesis.tokens, hypothesis.exits)
            scores = log_probs[range(len(hypothesis.tokens)), hypothesis.tokens]
            torch.testing.assert_close(torch.tensor(hypothesis.token_scores), scores, atol=1e-5, rtol=1e-5)
            assert hypothesis.score == pytest.approx(float(scores.sum()) / len(scores) ** 0.7, abs=1e-5)
            assert hypothesis.exits == planned_exits(policy, sentence, len(scores))


@pytest.mark.parametrize("beam", [1, 2, 5])
@pytest.mark.parametrize("policy", [FIXED, UNIFORM], ids=lambda policy: policy.name)
@pytest.mark.parametrize("length_penalty", [0.0, 1.0])
def test_search_equals_a_beam_search_of_lists_and_teacher_forcing(
    policy: Policy, beam: int, length_penalty: float
) -> None:
    model = make_model()
    settings = SearchSettings(beam=beam, best=beam, length_penalty=length_penalty, length_ratio=1.0, length_offset=3)
    for sentence, hypotheses in zip(SENTENCES, translate(model, SENTENCES, policy, settings), strict=True):
        expected = reference_beam(model, sentence, policy, settings)[:beam]
        assert [hypothesis.tokens for hypothesis in hypotheses] == [tokens for tokens, _ in expected]
        assert [hypothesis.score for hypothesis in hypotheses] == pytest.approx(
            [score for _, score in expected], abs=1e-5
        )


@pytest.mark.parametrize("length_penalty", [0.0, 0.6, 1.0])
@pytest.mark.parametrize("policy", [FIXED, UNIFORM], ids=lambda policy: policy.name)
def test_a_beam_that_holds_every_sequence_equals_exhaustive_search(policy: Policy, length_penalty: float) -> None:
    vocab, length = 6, 3
    model = make_model(vocab=vocab, max_length=length)
    words = [word for word in range(vocab) if word not in (PAD, BOS, EOS, UNK)]
    sequences = [[*start, EOS] for t in range(length) for start in itertools.product(words, repeat=t)]
    settings = SearchSettings(beam=vocab**length, best=vocab**length, length_penalty=length_penalty)
    for sentence, hypotheses in zip(SENTENCES, translate(model, SENTENCES, policy, settings), strict=True):
        exits = planned_exits(policy, sentence, length)
        scores = []
        for tokens in sequences:
            log_probs = forced_log_probs(model, sentence, tokens, exits[: len(tokens)])
            scores.append(float(log_probs[range(len(tokens)), tokens].sum()) / len(tokens) ** length_penalty)
        ranked = sorted(zip(scores, sequences, strict=True), key=lambda pair: -pair[0])
        assert [hypothesis.tokens for hypothesis in hypotheses] == [tokens for _, tokens in ranked]
        assert [hypothesis.score for hypothesis in hypotheses] == pytest.approx(
            [score for score, _ in ranked], abs=1e-5
        )


@pytest.mark.parametrize("policy", [FIXED, UNIFORM], ids=lambda policy: policy.name)
def test_beam_1_takes_the_most_probable_word_each_time(policy: Policy) -> None:
    model = make_model()
    for sentence, (hypothesis,) in zip(
        SENTENCES, translate(model, SENTENCES, policy, SearchSettings(beam=1)), strict=True
    ):
        tokens: list[int] = []
        exits = planned_exits(policy, sentence, model.config.max_length)
        while len(tokens) < model.config.max_length and EOS not in tokens:
            log_probs = forced_log_probs(model, sentence, [*tokens, PAD], exits[: len(tokens) + 1])[-1]
            log_probs[[PAD, BOS, UNK]] = -torch.inf
            tokens.append(int(log_probs.argmax()) if len(tokens) < model.config.max_length - 1 else EOS)
        assert hypothesis.tokens == tokens


@pytest.mark.parametrize(("policy", "beam"), [(FIXED, 1), (UNIFORM, 5)], ids=["fixed greedily", "uniform with a beam"])
def test_batches_of_1_7_and_64_give_the_same_tokens_and_exits(policy: Policy, beam: int) -> None:
    model, sentences, settings = make_model(), many_sentences(64), SearchSettings(beam=beam)
    outputs = []
    for size in (1, 7, 64):
        found = [
            lists
            for start in range(0, 64, size)
            for lists in translate(model, sentences[start : start + size], policy, settings)
        ]
        outputs.append([(hypothesis.tokens, hypothesis.exits, hypothesis.has_finished) for (hypothesis,) in found])
    assert outputs[0] == outputs[1] == outputs[2]
    assert len({has_finished for _, _, has_finished in outputs[0]}) == 2, (
        "some must finish and some be cut, or this shows little"
    )


@pytest.mark.parametrize("policy", [FIXED, UNIFORM], ids=lambda policy: policy.name)
def test_padding_and_neighbours_do_not_matter(policy: Policy) -> None:
    model, settings = make_model(), SearchSettings(beam=2)
    source, mask = make_source([SENTENCES[1]])
    alone = search(model, source, mask, policy, settings)
    pad = torch.nn.functional.pad
    padded = search(model, pad(source, (0, 4)), pad(mask, (0, 4)), policy, settings)
    among_others = translate(model, SENTENCES, policy, settings)
    for other in (padded[0], among_others[1]):
        assert [(best.tokens, best.exits) for best in other] == [(best.tokens, best.exits) for best in alone[0]]


def test_the_best_n_are_sorted_and_distinct_and_begin_with_the_best() -> None:
    model = make_model()
    five = translate(model, SENTENCES, UNIFORM, SearchSettings(beam=5, best=5))
    one = translate(model, SENTENCES, UNIFORM, SearchSettings(beam=5))
    for hypotheses, (best,) in zip(five, one, strict=True):
        scores = [hypothesis.score for hypothesis in hypotheses]
        assert scores == sorted(scores, reverse=True)
        assert len({tuple(hypothesis.tokens) for hypothesis in hypotheses}) == 5
        assert hypotheses[0] == best


@pytest.mark.parametrize("beam", [1, 3])
def test_outputs_stop_at_the_limit_and_say_whether_they_finished(beam: int) -> None:
    settings = SearchSettings(beam=beam, best=beam, length_ratio=1.0, length_offset=0)
    sentences = many_sentences(20)
    found = translate(make_model(), sentences, UNIFORM, settings)
    for sentence, hypotheses in zip(sentences, found, strict=True):
        for hypothesis in hypotheses:
            assert len(hypothesis.tokens) == len(hypothesis.exits) == len(hypothesis.token_scores) <= len(sentence) + 1
            assert hypothesis.tokens[-1] == EOS and EOS not in hypothesis.tokens[:-1]
            assert hypothesis.has_finished or len(hypothesis.tokens) == len(sentence) + 1
    assert {hypothesis.has_finished for hypotheses in found for hypothesis in hypotheses} == {True, False}


@pytest.mark.parametrize("length_penalty", [0.0, 1.0])
@pytest.mark.parametrize("beam", [1, 4])
def test_whoever_reaches_the_limit_pays_for_its_end_as_the_finished_do(beam: int, length_penalty: float) -> None:
    model, sentences, ends = make_model(), many_sentences(12), []
    settings = SearchSettings(beam=beam, best=beam, length_ratio=0.0, length_offset=5, length_penalty=length_penalty)
    for sentence, hypotheses in zip(sentences, translate(model, sentences, FIXED, settings), strict=True):
        expected = reference_beam(model, sentence, FIXED, settings)[:beam]
        assert [hypothesis.tokens for hypothesis in hypotheses] == [tokens for tokens, _ in expected]
        assert [hypothesis.score for hypothesis in hypotheses] == pytest.approx(
            [score for _, score in expected], abs=1e-4
        )
        for hypothesis in hypotheses:
            scores = forced_log_probs(model, sentence, hypothesis.tokens, hypothesis.exits)[
                range(len(hypothesis.tokens)), hypothesis.tokens
            ]
            assert hypothesis.tokens[-1] == EOS
            assert hypothesis.score == pytest.approx(float(scores.sum()) / len(scores) ** length_penalty, abs=1e-4)
            ends += [] if hypothesis.has_finished else [float(scores[-1])]
    assert ends and min(ends) < -3, "ends that cost something, or this shows little"


def test_a_sentence_that_ends_before_its_limit_does_not_notice_the_limit() -> None:
    model, sentences = make_model(), many_sentences(30)
    far = translate(model, sentences, UNIFORM, SearchSettings(beam=3, best=3))
    for sentence, hypotheses in zip(sentences, far, strict=True):
        longest = max(len(hypothesis.tokens) for hypothesis in hypotheses)
        if all(hypothesis.has_finished for hypothesis in hypotheses):
            near = SearchSettings(beam=3, best=3, length_ratio=0.0, length_offset=longest)
            assert outputs(translate(model, [sentence], UNIFORM, near)[0]) == outputs(hypotheses)
    assert sum(all(hypothesis.has_finished for hypothesis in hypotheses) for hypotheses in far) > 5, (
        "else this shows little"
    )


def test_padding_start_and_unknown_are_never_produced_however_probable() -> None:
    model = make_model()
    with torch.no_grad():
        for weights in model.classifiers:
            weights[[PAD, BOS, UNK]] *= 100
    found = translate(model, SENTENCES, FIXED, SearchSettings(beam=3, best=3))
    hypotheses = [hypothesis for lists in found for hypothesis in lists]
    assert not {PAD, BOS, UNK} & {token for hypothesis in hypotheses for token in hypothesis.tokens}
    assert min(score for hypothesis in hypotheses for score in hypothesis.token_scores) < -50, (
        "they must have been probable"
    )


def test_every_token_has_the_exit_that_was_forced() -> None:
    table = torch.tensor([[1, 4, 2], [3, 3, 1], [4, 1, 2]])
    for row, (hypothesis,) in zip(
        table.tolist(), translate(make_model(), SENTENCES, ForcedExits(table), SearchSettings()), strict=True
    ):
        assert hypothesis.exits == (row + row[-1:] * 8)[: len(hypothesis.tokens)]


@dataclass(frozen=True)
class LeavesByState:
    """Leaves after block 1 or 3 by the sign of a number of the state, and counts the rows of every
    step."""

    blocks: int = BLOCKS
    name: str = "by state"
    rows: list[int] = field(default_factory=list)

    @property
    def cost(self) -> DecisionCost:
        return no_decision

    def plan(self, source: EncodedSource, *, limit: int) -> Tensor:
        return torch.full((len(source), limit), BLOCKS)

    def decisions(self, words: CandidateWords) -> Decisions:
        return StateDecisions(words, self.rows)


@dataclass
class StateDecisions(PlannedDecisions):
    """The decisions of `LeavesByState` in one time step."""

    rows: list[int]

    def revise(self, n: int, hidden: Tensor, planned: Tensor) -> Tensor:
        if n == 1:
            self.rows.append(len(planned))
        return torch.where((hidden[:, 0] > 0) & (n % 2 == 1), n, planned)


def test_a_policy_that_looks_at_states_gives_hypotheses_their_own_exits() -> None:
    model = make_model()
    found = translate(model, SENTENCES, LeavesByState(), SearchSettings(beam=3, best=3))
    hypotheses = [(sentence, best) for sentence, lists in zip(SENTENCES, found, strict=True) for best in lists]
    assert {left for _, best in hypotheses for left in best.exits} == {1, 3, 4}
    for sentence, best in hypotheses:
        log_probs = forced_log_probs(model, sentence, best.tokens, best.exits)
        torch.testing.assert_close(
            torch.tensor(best.token_scores), log_probs[range(len(best.tokens)), best.tokens], atol=1e-5, rtol=1e-5
        )


def test_a_finished_sentence_costs_no_further_step() -> None:
    policy = LeavesByState()
    found = translate(make_model(), many_sentences(20), policy, SearchSettings(beam=1))
    lengths = [len(hypothesis.tokens) for (hypothesis,) in found]
    assert policy.rows == [sum(length > t for length in lengths) for t in range(max(lengths))]


def test_dropout_is_off_during_search_and_on_again_afterwards() -> None:
    model = make_model(dropout=0.5).train()
    first, second = (translate(model, SENTENCES, FIXED, SearchSettings(beam=2)) for _ in range(2))
    assert first == second
    assert model.training and model.decoder[0].training


def test_no_sentences_have_no_hypotheses() -> None:
    assert (
        search(
            make_model(),
            torch.zeros(0, 7, dtype=torch.long),
            torch.zeros(0, 7, dtype=torch.bool),
            FIXED,
            SearchSettings(),
        )
        == []
    )
