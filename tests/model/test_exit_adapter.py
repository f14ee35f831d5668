"""Adapters of exits: their formula, who goes through them, and who does not."""

import pytest
import reference
import torch
from adapters import ADAPTER, WIDTH, adapted_model
from selections import table_selection
from tiny import BATCH, BLOCKS, DIM, TIME, random_exits, tiny_batch, tiny_config, tiny_model
from torch import Tensor
from torch.nn import functional as F

from anydepth.errors import ConfigError
from anydepth.exits.adaptive import AdaptiveTransformer
from anydepth.model.exit_adapter import ExitAdapter
from anydepth.model.source import EncodedSource
from anydepth.vocabulary.selection import CandidateWords

KINDS = ["untied", "shared", "tied"]


def some_states(count: int = 9) -> Tensor:
    return torch.randn(count, DIM, generator=torch.Generator().manual_seed(2))


@torch.no_grad()
def slow_logits(model: AdaptiveTransformer, n: int, state: Tensor) -> Tensor:
    """The scores of all words for one state at exit n, adapter included."""
    if n < model.blocks:
        adapter = model.exit_adapters[n - 1]
        added = reference.linear(adapter.up, reference.linear(adapter.down, state).clamp(min=0))
        state = reference.layer_norm(adapter.norm, state + added)
    return model.classifier(n) @ state


@pytest.mark.parametrize("classifiers", KINDS)
@torch.no_grad()
def test_every_exit_below_the_last_scores_words_by_its_own_adapters_formula(classifiers: str) -> None:
    model, states = adapted_model("fixed:3", f"model.classifiers={classifiers}"), some_states()
    for n in range(1, BLOCKS + 1):
        expected = torch.stack([slow_logits(model, n, state) for state in states])
        torch.testing.assert_close(model.logits_at(n, states), expected, atol=1e-5, rtol=1e-5)
    exits = random_exits(len(states), seed=4)
    assert set(exits.tolist()) == set(range(1, BLOCKS + 1)), "else this shows little"
    expected = torch.stack([slow_logits(model, n, state) for n, state in zip(exits.tolist(), states, strict=True)])
    torch.testing.assert_close(model.exit_logits(states, exits), expected, atol=1e-5, rtol=1e-5)
    assert model.exit_logits(states[:0], exits[:0]).shape == (0, len(model.classifier(1)))


@pytest.mark.parametrize("classifiers", KINDS)
@torch.no_grad()
def test_selected_words_have_the_scores_that_they_have_among_all(classifiers: str) -> None:
    model, batch = adapted_model("fixed:3", f"model.classifiers={classifiers}"), tiny_batch()
    memory = model.encode(batch.source, batch.source_mask)
    source = EncodedSource(batch.source, batch.source_mask, memory)
    words = CandidateWords.of_batch(model, table_selection(model), source)
    states, exits = some_states(BATCH), torch.tensor([2, BLOCKS, 1])
    assert words.tokens is not None
    for n in range(1, BLOCKS + 1):
        whole = model.logits_at(n, states)[:, words.tokens].masked_fill(~words.allowed, -torch.inf)
        torch.testing.assert_close(words.logits_at(n, states), whole, atol=1e-5, rtol=1e-5)
        places = torch.arange(4).expand(BATCH, 4)
        torch.testing.assert_close(words.chosen_logits(n, states, places), whole[:, :4], atol=1e-5, rtol=1e-5)
    whole = model.exit_logits(states, exits)[:, words.tokens].masked_fill(~words.allowed, -torch.inf)
    torch.testing.assert_close(words.exit_logits(states, exits), whole, atol=1e-5, rtol=1e-5)


@torch.no_grad()
def test_states_and_the_last_exit_are_bit_for_bit_those_of_the_model_without_adapters() -> None:
    model, plain, batch = adapted_model("geometric"), tiny_model("exits.halting=geometric"), tiny_batch()
    own = dict(model.named_parameters())
    for name, parameter in plain.named_parameters():
        parameter.copy_(own[name])
    for exits in (None, random_exits(BATCH, TIME, seed=3)):
        with_adapters, without = (
            each.decode(
                batch.target_inputs, each.encode(batch.source, batch.source_mask), batch.source_mask, exits=exits
            )
            for each in (model, plain)
        )
        assert with_adapters.equal(without)
        rows = without[-1].flatten(0, 1)
        assert model.logits_at(BLOCKS, rows).equal(plain.logits_at(BLOCKS, rows))
        assert not model.logits_at(1, rows).equal(plain.logits_at(1, rows))


@torch.no_grad()
def test_a_fresh_adapter_normalises_and_nothing_else() -> None:
    adapter, states = ExitAdapter(DIM, WIDTH), some_states()
    torch.testing.assert_close(adapter(states), F.layer_norm(states, (DIM,)), atol=0, rtol=0)
    assert adapter.down.weight.any(), "else it could never learn"


def test_a_model_without_adapters_has_no_tensor_of_them_and_a_model_with_them_the_same_others() -> None:
    torch.manual_seed(3)
    plain = AdaptiveTransformer(tiny_config(), source_vocab=19, target_vocab=23, is_joint=False)
    torch.manual_seed(3)
    model = AdaptiveTransformer(tiny_config(ADAPTER), source_vocab=19, target_vocab=23, is_joint=False)
    own = dict(model.named_parameters())
    assert all(parameter.equal(own[name]) for name, parameter in plain.named_parameters())
    added = own.keys() - dict(plain.named_parameters()).keys()
    parts = ("down.weight", "down.bias", "up.weight", "up.bias", "norm.weight", "norm.bias")
    assert added == {f"exit_adapters.{n}.{part}" for n in range(BLOCKS - 1) for part in parts}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ((ADAPTER, "model.exits=last"), r'exits below the last; set model\.exits = "all", or model\.exit_adapter = 0'),
        ((ADAPTER, "model.blocks=1"), r"and model\.blocks = 1 leaves none; set model\.exit_adapter = 0"),
        (
            (ADAPTER, "training.mode=layerdrop", "model.classifiers=tied"),
            r"the adapters of those below would know nothing; set model\.exit_adapter = 0",
        ),
        (("training.trunk=frozen",), r"leaves nothing to train .*; set model\.exit_adapter or exits\.halting"),
        (
            ("training.full_depth_weight=0.5", "training.mode=mixed"),
            r'compares every exit with the last .*; set model\.exits = "all" and training\.mode = "aligned"',
        ),
        (("training.full_depth_weight=0.5", "model.exits=last"), r"full_depth_weight = 0\.5 compares every exit"),
    ],
)
def test_settings_that_cannot_be_meant_are_refused(changes: tuple[str, ...], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        tiny_config(*changes)
