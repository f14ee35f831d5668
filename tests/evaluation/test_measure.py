"""Figures of a policy: average exit and FLOPs by hand, counts, and what is asked for is what is
recorded."""

from dataclasses import replace

import pytest
from evaluation.translators import REFERENCES, SOURCES, make_translator
from tiny import BLOCKS, DIM, ENCODER_DIM, FFN_DIM

from anydepth.evaluation.measure import (
    average_exit,
    executed_mflops_per_token,
    full_depth_flops,
    greedy_bleu_per_exit,
    measure,
)
from anydepth.inference.translator import Translation, Translator
from anydepth.search.decoding import GREEDY, DecodingOptions


@pytest.fixture(scope="module")
def translator() -> Translator:
    return make_translator()


def leaving(*exits: int) -> Translation:
    return Translation(exits=list(exits), tokens=["x"] * len(exits), scores=[0.0] * len(exits))


def test_average_exit_is_the_mean_over_tokens_and_not_over_sentences() -> None:
    assert average_exit([leaving(1, 1, 1, 1), leaving(6)]) == 10 / 5
    assert average_exit([leaving(2, 3), leaving()]) == 2.5


def test_nothing_translated_has_average_exit_0() -> None:
    assert average_exit([]) == average_exit([leaving(), leaving()]) == 0.0


def test_counts_are_those_of_the_translations(translator: Translator) -> None:
    figures, translations = measure(
        translator, SOURCES, REFERENCES, translator.policy("uniform:5"), DecodingOptions(beam=2)
    )
    assert (figures.policy, figures.sentences, figures.beam, figures.length_penalty) == ("uniform:seed=5", 3, 2, 0.5)
    assert figures.tokens == sum(len(translation.tokens) for translation in translations)
    assert [translation.text == "" for translation in translations][1]
    assert figures.average_exit == average_exit(translations)
    assert figures.tokens_per_second > figures.tokens / 60
    every = [left for translation in translations for left in translation.exits]
    assert figures.exit_counts == [sum(left == n for left in every) for n in range(1, BLOCKS + 1)]
    assert all(figures.exit_counts), "every exit is taken, or a swapped count could pass"


@pytest.mark.parametrize("n", range(1, BLOCKS + 1))
def test_a_fixed_exit_is_its_own_average(translator: Translator, n: int) -> None:
    figures, _ = measure(translator, SOURCES, REFERENCES, translator.policy(f"fixed:{n}"), GREEDY)
    assert figures.average_exit == n


def test_options_that_are_not_given_come_from_the_run(translator: Translator) -> None:
    figures, _ = measure(translator, SOURCES, REFERENCES, translator.policy(None))
    assert (figures.policy, figures.beam, figures.length_penalty) == (f"fixed:{BLOCKS}", 3, 0.5)
    figures, _ = measure(translator, SOURCES, REFERENCES, translator.policy(None), DecodingOptions(length_penalty=0.0))
    assert figures.length_penalty == 0.0, "zero is a wish, too"


def test_what_was_not_asked_for_is_not_told(translator: Translator) -> None:
    figures, _ = measure(translator, SOURCES, REFERENCES, translator.policy(None), GREEDY)
    assert (figures.executed_mflops_per_token, figures.comparison) == (None, None)


def test_greedy_bleu_has_a_figure_for_every_exit_with_a_classifier(translator: Translator) -> None:
    figures = greedy_bleu_per_exit(translator, SOURCES, REFERENCES)
    one_by_one = [
        measure(translator, SOURCES, REFERENCES, translator.policy(f"fixed:{n}"), GREEDY)[0]
        for n in range(1, BLOCKS + 1)
    ]
    assert figures == [one.scores.bleu.value for one in one_by_one]
    assert len(greedy_bleu_per_exit(make_translator("model.exits=last"), SOURCES, REFERENCES)) == 1


def flops_by_hand(translations: list[Translation], vocab: int, policy: str) -> int:
    """Algorithm 2 of appendix B, block by block: who was called before is remembered, and nothing
    is summed up beforehand."""
    total = 0
    for translation in translations:
        x, called = translation.source_length, set()
        for t, left in enumerate(translation.exits, 1):
            for n in range(1, BLOCKS + 1):
                if n > left:
                    total += 4 * DIM * DIM
                    continue
                total += 12 * DIM * DIM + 4 * FFN_DIM * DIM + 4 * t * DIM + 4 * x * DIM
                if n not in called:
                    total += 4 * x * DIM * ENCODER_DIM
                    called.add(n)
            total += {
                "sequence": 2 * vocab * DIM + (2 * BLOCKS * DIM if t == 1 else 0),
                "multinomial": 2 * vocab * DIM + 2 * BLOCKS * DIM,
                "geometric": 2 * vocab * DIM + 2 * DIM * left,
                "confidence": 2 * vocab * DIM * left,
            }.get(policy, 2 * vocab * DIM)
    return total


@pytest.mark.parametrize(
    "text", ["fixed:2", "uniform:3", "sequence", "multinomial", "geometric:0.99,0.9,0.7", "confidence:0.15,0.15,0.12"]
)
@pytest.mark.parametrize("beam", [1, 2])
def test_flops_are_those_of_appendix_b_for_the_exits_that_were_recorded(text: str, beam: int) -> None:
    name = text.partition(":")[0]
    trained = [f"exits.halting={name}"] if name in ("sequence", "multinomial", "geometric") else []
    translator = make_translator(*trained)
    figures, translations = measure(
        translator, SOURCES, REFERENCES, translator.policy(text), DecodingOptions(beam=beam)
    )
    vocab = translator.target_tokenizer.size
    by_hand = flops_by_hand(translations, vocab, name)
    deepest = [replace(each, exits=[BLOCKS] * len(each.exits)) for each in translations]
    assert figures.mflops_per_token == pytest.approx(by_hand / figures.tokens / 1e6, rel=1e-12)
    assert figures.flops_share == pytest.approx(by_hand / flops_by_hand(deepest, vocab, "fixed"), rel=1e-12)
    if name in ("uniform", "multinomial", "geometric", "confidence"):
        assert sum(count > 0 for count in figures.exit_counts) > 1, "exits differ, or this shows little"


def test_full_depth_is_exactly_the_whole(translator: Translator) -> None:
    figures, translations = measure(
        translator, SOURCES, REFERENCES, translator.policy(f"fixed:{BLOCKS}"), DecodingOptions(beam=2)
    )
    assert figures.flops_share == 1.0
    assert figures.mflops_per_token * figures.tokens * 1e6 == pytest.approx(
        full_depth_flops(translator, translations), rel=1e-12
    )


def test_thresholds_of_1_cost_full_depth_and_one_that_decides_in_vain_costs_more(translator: Translator) -> None:
    for text, is_more in (("confidence:1", False), (f"confidence:{'1,' * (BLOCKS - 2)}0.9999", True)):
        figures, _ = measure(translator, SOURCES, REFERENCES, translator.policy(text), GREEDY)
        assert figures.average_exit == BLOCKS
        assert (figures.flops_share > 1) == is_more
        assert figures.flops_share >= 1


def test_nothing_translated_costs_nothing(translator: Translator) -> None:
    figures, _ = measure(translator, [""], [""], translator.policy(None))
    assert (figures.tokens, figures.mflops_per_token, figures.flops_share, figures.average_exit) == (0, 0.0, 0.0, 0.0)


@pytest.mark.parametrize("text", ["fixed:3", "uniform:3"])
def test_a_greedy_search_without_padding_executes_what_the_formula_says(translator: Translator, text: str) -> None:
    policy = translator.policy(text)
    alone, wide = (DecodingOptions(beam=beam, batch_tokens=1) for beam in (1, 3))
    figures, _ = measure(translator, SOURCES, REFERENCES, policy, alone)
    executed = executed_mflops_per_token(translator, SOURCES, policy, alone)
    assert executed == pytest.approx(figures.mflops_per_token, rel=1e-12)
    assert executed_mflops_per_token(translator, SOURCES, policy, wide) > executed, "a beam is counted whole"
