"""FLOPs that were executed, against the formulas of appendix B."""

from dataclasses import replace

import pytest
import torch
from adapters import ADAPTER
from tiny import BLOCKS, SOURCE_VOCAB, TARGET_VOCAB, tiny_model
from torch.nn.attention import SDPBackend, sdpa_kernel
from variations import MARIAN
from walks import SOME_PATTERNS, THRESHOLD_POLICIES, model_for, with_ends

from anydepth.evaluation.executed import executed_decoder_flops
from anydepth.exits.flops import DecoderShape, no_decision, sentence_flops
from anydepth.exits.parsing import parse_policy
from anydepth.exits.policies import FixedExit, Policy, UniformExit
from anydepth.model.transformer import Transformer
from anydepth.search.beam import search
from anydepth.search.decoding import SearchSettings
from anydepth.text.batches import make_source

SENTENCE = [5, 6, 7, 8, 9, 10]
GREEDY = SearchSettings(beam=1, length_offset=3)
POLICIES = [*(FixedExit(n, BLOCKS) for n in range(1, BLOCKS + 1)), UniformExit(1, BLOCKS), UniformExit(2, BLOCKS)]


def executed_and_formula(
    model: Transformer, sentences: list[list[int]], policy: Policy, settings: SearchSettings = GREEDY
) -> tuple[int, int]:
    """The FLOPs of a greedy search: those counted, and those of the formula for the exits that it
    recorded."""
    with executed_decoder_flops() as flops:
        found = search(model, *make_source(sentences), policy, settings)
    shape = DecoderShape.of(model.config, TARGET_VOCAB)
    lengths = [len(sentence) + 1 for sentence in sentences]
    return flops.decoder, sum(
        sentence_flops(shape, best.exits, x, policy.cost) for (best,), x in zip(found, lengths, strict=True)
    )


@pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: policy.name)
@pytest.mark.parametrize(
    ("classifiers", "adapter"), [("untied", 0), ("shared", 0), ("tied", 0), ("untied", 5), ("tied", 7)]
)
def test_the_formula_is_what_a_greedy_search_executes(classifiers: str, adapter: int, policy: Policy) -> None:
    model = tiny_model(f"model.classifiers={classifiers}", f"model.exit_adapter={adapter}")
    executed, formula = executed_and_formula(model, [SENTENCE], policy)
    assert executed == formula


@pytest.mark.parametrize("changes", [(), MARIAN, (ADAPTER,)], ids=["plain", "as Marian's", "adapters"])
@pytest.mark.parametrize("text", ["confidence:0.08", "margin:0.02", "shortlist:5:0.3"])
def test_scores_that_a_decision_computed_are_not_computed_again(text: str, changes: tuple[str, ...]) -> None:
    model = tiny_model(*changes)
    executed, formula = executed_and_formula(model, [SENTENCE], parse_policy(text, model))
    assert executed == formula


@pytest.mark.parametrize(
    ("text", "units", "adapter"),
    [
        *((text, 0, 0) for text in THRESHOLD_POLICIES),
        ("geometric:0.6,0.4,0.5", 7, 5),
        *((text, 0, 5) for text in THRESHOLD_POLICIES if text.startswith(("confidence", "shortlist"))),
    ],
)
def test_a_threshold_of_0_or_1_executes_no_decision_and_none_is_in_the_formula(
    text: str, units: int, adapter: int
) -> None:
    model, counts = model_for(text, f"exits.halting_units={units}", f"model.exit_adapter={adapter}"), set()
    short = SearchSettings(beam=1, exact_length=4)
    for pattern in SOME_PATTERNS:
        policy = parse_policy(with_ends(text, pattern), model)
        executed, formula = executed_and_formula(model, [SENTENCE], policy, short)
        if text.startswith("similarity"):  # torch counts no cosine
            policy = replace(policy, decision_cost=lambda *arguments, deciding: no_decision(*arguments))
            formula = executed_and_formula(model, [SENTENCE], policy, short)[1]
        assert executed == formula, pattern
        counts.add(executed)
    assert len(counts) > 5, "else this shows little"


def test_one_decision_costs_full_depth_and_one_decision() -> None:
    model, shape = tiny_model(), DecoderShape.of(tiny_model().config, TARGET_VOCAB)
    full = sentence_flops(shape, [BLOCKS] * 5, 7, no_decision)
    decision = 2 * TARGET_VOCAB * shape.dim
    for text, decisions in (("confidence:1,1,0.03", 1), ("confidence:1,1,1", 0), ("confidence:0.5,1,0.4", 2)):
        assert sentence_flops(shape, [BLOCKS] * 5, 7, parse_policy(text, model).cost) == full + 5 * decisions * decision


@pytest.mark.parametrize("threshold", [0.0, 0.5, 1.0])
def test_a_decision_by_units_executes_what_the_formula_says(threshold: float) -> None:
    model = tiny_model("exits.halting=geometric", "exits.halting_units=7")
    executed, formula = executed_and_formula(model, [SENTENCE], parse_policy(f"geometric:{threshold}", model))
    assert executed == formula


@pytest.mark.parametrize("text", ["geometric:0.5", "geometric:1", "similarity:0.6"])
def test_other_decisions_execute_no_more_than_the_formula_and_hardly_less(text: str) -> None:
    model = tiny_model("exits.halting=geometric")
    executed, formula = executed_and_formula(model, [SENTENCE], parse_policy(text, model))
    assert 0.98 * formula < executed <= formula


@pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: policy.name)
def test_a_batch_without_padding_executes_what_its_sentences_cost_one_by_one(policy: Policy) -> None:
    executed, formula = executed_and_formula(tiny_model(), [SENTENCE, SENTENCE[::-1], [11, 12, 13, 14, 15, 16]], policy)
    assert executed == formula


def test_one_block_and_a_source_of_nothing_but_its_end() -> None:
    executed, formula = executed_and_formula(tiny_model("model.blocks=1"), [[]], FixedExit(1, 1))
    assert executed == formula


def test_every_attention_kernel_counts_alike() -> None:
    counts = []
    for kernel in (SDPBackend.FLASH_ATTENTION, SDPBackend.MATH):
        with sdpa_kernel(kernel):
            counts.append(executed_and_formula(tiny_model(), [SENTENCE], UniformExit(1, BLOCKS))[0])
    assert counts[0] == counts[1]


def test_the_encoder_is_left_out_and_the_classifier_is_not() -> None:
    model = tiny_model()
    with torch.inference_mode(), executed_decoder_flops() as flops:
        memory = model.encode(*make_source([SENTENCE]))
        assert flops.decoder == 0
        model.exit_logits(memory.new_zeros(1, model.config.decoder.dim), torch.tensor([2]))
        assert flops.decoder == 2 * TARGET_VOCAB * model.config.decoder.dim


def test_a_deeper_encoder_changes_nothing() -> None:
    shallow, deep = (
        executed_and_formula(tiny_model(f"model.encoder.blocks={n}"), [SENTENCE], FixedExit(2, BLOCKS)) for n in (1, 5)
    )
    assert shallow[0] / shallow[1] == deep[0] / deep[1] == 1


def test_a_wider_beam_executes_more_than_its_best_hypothesis_costs() -> None:
    model, shape = tiny_model(), DecoderShape.of(tiny_model().config, TARGET_VOCAB)
    with executed_decoder_flops() as flops:
        [[best]] = search(model, *make_source([SENTENCE]), FixedExit(2, BLOCKS), SearchSettings(beam=3))
    assert flops.decoder > sentence_flops(shape, best.exits, len(SENTENCE) + 1, no_decision)


def test_a_count_stops_with_its_block_and_two_do_not_meet() -> None:
    model = tiny_model()
    with executed_decoder_flops() as first:
        search(model, *make_source([SENTENCE]), FixedExit(1, BLOCKS), GREEDY)
    counted = first.decoder
    with executed_decoder_flops() as second:
        search(model, *make_source([[SOURCE_VOCAB - 1]]), FixedExit(4, BLOCKS), GREEDY)
    assert first.decoder == counted
    assert 0 < second.decoder != counted
