"""The model in ONNX Runtime: the tokens and exits of the plain step, and graphs that compute what
the model does."""

from collections.abc import Sequence
from pathlib import Path

import pytest
import torch
from tiny import DIM, SOURCE_VOCAB, TARGET_VOCAB, random_exits, tiny_model
from torch import Tensor
from walks import POLICIES, model_for

from anydepth.exits.adaptive import AdaptiveTransformer
from anydepth.exits.halting import GeometricHalting, MultinomialHalting, SequenceHalting
from anydepth.exits.parsing import parse_policy
from anydepth.exits.policies import ForcedExits, Policy, UniformExit
from anydepth.inference.engines.onnx.onnx_model import OnnxTransformer
from anydepth.inference.engines.onnx.sessions import open_programs
from anydepth.inference.export.onnx_folder import write_graphs
from anydepth.search.beam import Hypothesis, search
from anydepth.search.decoding import SearchSettings
from anydepth.text.batches import make_source

# up to 18 tokens, so that the arrays grow twice
SETTINGS = {beam: SearchSettings(beam=beam, best=beam, length_ratio=1.5, length_offset=7) for beam in (1, 5)}


def in_onnx(model: AdaptiveTransformer, folder: Path, *, int8: bool = False) -> OnnxTransformer:
    """`model` on graphs written to `folder`."""
    return OnnxTransformer(model, open_programs(write_graphs(model, folder, int8=int8), threads=1), name="onnx")


def sentences(count: int, vocab: int = SOURCE_VOCAB) -> tuple[Tensor, Tensor]:
    """Random sources of 1 to 7 tokens with their ends."""
    generator = torch.Generator().manual_seed(count)
    lengths = torch.randint(0, 7, (count,), generator=generator).tolist()
    return make_source([torch.randint(4, vocab, (length,), generator=generator).tolist() for length in lengths])


def words_and_exits(found: Sequence[Sequence[Hypothesis]]) -> list[list[tuple[list[int], list[int]]]]:
    return [[(each.tokens, each.exits) for each in hypotheses] for hypotheses in found]


def assert_same_search(
    model: AdaptiveTransformer, fast: OnnxTransformer, policy: str | Policy, count: int, beam: int
) -> None:
    """Tokens and exits of every hypothesis are equal, and scores nearly."""
    source, mask = sentences(count, model.source_embedding.num_embeddings)
    policies = [parse_policy(policy, each) if isinstance(policy, str) else policy for each in (model, fast)]
    plain, quick = (
        search(each, source, mask, chosen, SETTINGS[beam]) for each, chosen in zip((model, fast), policies, strict=True)
    )
    assert words_and_exits(plain) == words_and_exits(quick)
    scores = [[hypothesis.score for hypotheses in found for hypothesis in hypotheses] for found in (plain, quick)]
    assert scores[0] == pytest.approx(scores[1], abs=1e-4)


@pytest.mark.parametrize("policy", [*POLICIES, "geometric:0.5", "fixed:1"])
def test_tokens_and_exits_are_those_of_the_plain_step_for_every_policy(policy: str, tmp_path: Path) -> None:
    model = model_for(policy, *(["exits.halting_units=9"] if policy == "geometric:0.5" else []))
    fast = in_onnx(model, tmp_path)
    for count in (1, 7, 64):
        for beam in (1, 5):
            assert_same_search(model, fast, policy, count, beam)


@pytest.mark.parametrize("beam", [1, 5])
def test_tokens_and_exits_are_those_of_the_plain_step_for_forced_exits(beam: int, tmp_path: Path) -> None:
    model = model_for("fixed:3")
    fast = in_onnx(model, tmp_path)
    for count in (1, 7, 64):
        assert_same_search(model, fast, ForcedExits(random_exits(count, 30, seed=count)), count, beam)


@pytest.mark.parametrize(
    "changes", [["model.classifiers=shared"], ["model.classifiers=tied"], ["model.encoder.dim=12", "model.heads=2"]]
)
def test_tokens_and_exits_are_those_of_the_plain_step_for_other_shapes(changes: list[str], tmp_path: Path) -> None:
    model = model_for("confidence:0.7,0.5,0.6", *changes)
    fast = in_onnx(model, tmp_path)
    for policy in ("uniform:7", "confidence:0.7,0.5,0.6"):
        assert_same_search(model, fast, policy, 7, 5)
    assert (tmp_path / "classifier1.onnx").exists() == (model.config.classifiers == "untied")


def test_a_joint_vocabulary_with_tied_embeddings_is_exported_too(tmp_path: Path) -> None:
    model = tiny_model("model.classifiers=tied", f"model.encoder.dim={DIM}", is_joint=True)
    assert_same_search(model, in_onnx(model, tmp_path), "uniform:7", 7, 5)


def test_a_model_with_one_exit_only_is_exported_too(tmp_path: Path) -> None:
    model = tiny_model("model.exits=last")
    assert_same_search(model, in_onnx(model, tmp_path), "fixed:4", 7, 5)


def test_deferred_keys_and_values_leave_states_as_they_are_for_any_exits(tmp_path: Path) -> None:
    """Rows come back to deep blocks after different numbers of shallow tokens, and beyond the first
    growth of the cache."""
    model = tiny_model()
    fast = in_onnx(model, tmp_path)
    source, mask = sentences(5)
    exits = random_exits(5, 40, seed=3)
    exits[:, 3:20] = 1  # a long pause, then all blocks at once
    tokens = torch.randint(4, TARGET_VOCAB, (5, 40), generator=torch.Generator().manual_seed(4))
    with torch.inference_mode():
        caches = [each.start_cache(each.encode(source, mask), mask) for each in (model, fast)]
        for t in range(40):
            states = [
                each.step(tokens[:, t], cache, exits[:, t], lambda n, hidden, planned: planned)
                for each, cache in zip((model, fast), caches, strict=True)
            ]
            torch.testing.assert_close(states[0][0], states[1][0], atol=1e-4, rtol=1e-4)
            assert torch.equal(states[0][1], states[1][1])


def test_int8_logits_are_close_to_those_of_the_model(tmp_path: Path) -> None:
    model = tiny_model("model.encoder.dim=64", "model.decoder.dim=48", "model.decoder.ffn_dim=96")
    small = in_onnx(model, tmp_path, int8=True)
    source, mask = sentences(7)
    hidden, exits = torch.randn(6, 48, generator=torch.Generator().manual_seed(1)), random_exits(6, seed=1)
    with torch.inference_mode():
        for exact, rounded in (
            (model.encode(source, mask)[mask], small.encode(source, mask)[mask]),
            (model.exit_logits(hidden, exits), small.exit_logits(hidden, exits)),
        ):
            error = (exact - rounded).norm() / exact.norm()
            assert 0 < error < 0.05


@pytest.mark.parametrize("beam", [1, 5])
def test_an_int8_translation_does_not_depend_on_the_sentences_beside_it(beam: int, tmp_path: Path) -> None:
    model = tiny_model()
    small, policy = in_onnx(model, tmp_path, int8=True), UniformExit(7, model.blocks)
    source, mask = sentences(7)
    together = search(small, source, mask, policy, SETTINGS[beam])
    alone = [search(small, source[[i]], mask[[i]], policy, SETTINGS[beam])[0] for i in range(len(source))]
    assert words_and_exits(together) == words_and_exits(alone)


@pytest.mark.parametrize("int8", [False, True])
@pytest.mark.parametrize("units", [0, 9])
def test_the_halting_graph_gives_the_probability_of_stopping(units: int, int8: bool, tmp_path: Path) -> None:
    model = model_for("geometric:0.5", f"exits.halting_units={units}")
    assert isinstance(model.halting, GeometricHalting)
    hidden = torch.randn(7, DIM, generator=torch.Generator().manual_seed(1)) * torch.logspace(-2, 3, 7)[:, None]
    (probability,) = in_onnx(model, tmp_path, int8=int8).programs["halting"](states=hidden.numpy())
    with torch.inference_mode():
        expected = model.halting.halt_logits(hidden).sigmoid()
    torch.testing.assert_close(torch.from_numpy(probability), expected, atol=1e-6, rtol=1e-6)
    assert probability.min() >= 0 and probability.max() <= 1 and probability.max() - probability.min() > 0.5


@pytest.mark.parametrize("int8", [False, True])
def test_the_halting_graph_gives_the_scores_of_a_tokens_exits(int8: bool, tmp_path: Path) -> None:
    model = model_for("multinomial")
    assert isinstance(model.halting, MultinomialHalting)
    hidden = torch.randn(7, DIM, generator=torch.Generator().manual_seed(1))
    (scores,) = in_onnx(model, tmp_path, int8=int8).programs["halting"](states=hidden.numpy())
    with torch.inference_mode():
        torch.testing.assert_close(torch.from_numpy(scores), model.halting.token_logits(hidden), atol=1e-4, rtol=1e-5)


@pytest.mark.parametrize("int8", [False, True])
def test_the_halting_graph_gives_the_scores_of_a_sentences_exits_whatever_its_padding_holds(
    int8: bool, tmp_path: Path
) -> None:
    model = model_for("sequence")
    assert isinstance(model.halting, SequenceHalting)
    source, mask = sentences(7)
    assert not mask.all()
    with torch.inference_mode():
        memory = model.encode(source, mask)
        expected = model.halting.sentence_logits(memory, mask)
        memory[~mask] = 1000.0
    (scores,) = in_onnx(model, tmp_path, int8=int8).programs["halting"](memory=memory.numpy(), source_mask=mask.numpy())
    torch.testing.assert_close(torch.from_numpy(scores), expected, atol=1e-4, rtol=1e-5)


def test_a_model_without_a_halting_module_has_no_halting_graph(tmp_path: Path) -> None:
    assert "halting" not in write_graphs(tiny_model(), tmp_path, int8=False)
