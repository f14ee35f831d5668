"""Figures of a policy: average exit by hand, counts, and what is asked for is what is recorded."""

import json
from dataclasses import asdict

import pytest
from tiny import BLOCKS, tiny_config

from anydepth.config import DecodingConfig
from anydepth.evaluation.evaluate import EACH_EXIT, Evaluation, Recipe, policy_names
from anydepth.evaluation.measure import average_exit, greedy_bleu_per_exit, measure
from anydepth.evaluation.table import aligned_table, evaluation_json, evaluation_table
from anydepth.inference.translator import Translation, Translator
from anydepth.model.transformer import Transformer
from anydepth.text.tokenizer import train_tokenizer

SOURCES = ["der hund läuft", "", "die katze schläft heute"]
REFERENCES = ["the dog runs", "", "the cat sleeps today"]


def make_translator(*changes: str) -> Translator:
    """An untrained model of the tiny sizes with tokenizers for SOURCES and REFERENCES."""
    tokenizer = train_tokenizer(SOURCES + REFERENCES, vocab_size=290)
    model = Transformer(tiny_config(*changes).model, source_vocab=tokenizer.size, target_vocab=tokenizer.size, is_joint=True)
    return Translator(model.eval(), tokenizer, tokenizer, DecodingConfig(beam=3, length_penalty=0.5, length_ratio=1.0, length_offset=2))


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
    figures, translations = measure(translator, SOURCES, REFERENCES, translator.policy("uniform:5"), beam=2)
    assert (figures.policy, figures.sentences, figures.beam, figures.length_penalty) == ("uniform:seed=5", 3, 2, 0.5)
    assert figures.tokens == sum(len(translation.tokens) for translation in translations)
    assert [translation.text == "" for translation in translations][1]
    assert figures.average_exit == average_exit(translations)
    assert figures.tokens_per_second > figures.tokens / 60


@pytest.mark.parametrize("n", range(1, BLOCKS + 1))
def test_a_fixed_exit_is_its_own_average(translator: Translator, n: int) -> None:
    figures, _ = measure(translator, SOURCES, REFERENCES, translator.policy(f"fixed:{n}"), beam=1)
    assert figures.average_exit == n


def test_options_that_are_not_given_come_from_the_run(translator: Translator) -> None:
    figures, _ = measure(translator, SOURCES, REFERENCES, translator.policy(None))
    assert (figures.policy, figures.beam, figures.length_penalty) == (f"fixed:{BLOCKS}", 3, 0.5)
    figures, _ = measure(translator, SOURCES, REFERENCES, translator.policy(None), length_penalty=0.0)
    assert figures.length_penalty == 0.0, "zero is a wish, too"


def test_greedy_bleu_has_a_figure_for_every_exit_with_a_classifier(translator: Translator) -> None:
    figures = greedy_bleu_per_exit(translator, SOURCES, REFERENCES)
    one_by_one = [measure(translator, SOURCES, REFERENCES, translator.policy(f"fixed:{n}"), beam=1)[0] for n in range(1, BLOCKS + 1)]
    assert figures == [one.scores.bleu.value for one in one_by_one]
    assert len(greedy_bleu_per_exit(make_translator("model.exits=last"), SOURCES, REFERENCES)) == 1


def test_each_stands_for_every_exit_and_uniform(translator: Translator) -> None:
    every = [*(f"fixed:{n}" for n in range(1, BLOCKS + 1)), "uniform"]
    assert policy_names([EACH_EXIT], translator) == every
    assert policy_names(["uniform:3", EACH_EXIT], translator) == ["uniform:3", *every]
    assert policy_names([EACH_EXIT], make_translator("model.exits=last")) == [f"fixed:{BLOCKS}"]
    assert policy_names([], translator) == [None]


def test_the_table_and_json_show_the_same_measurement(translator: Translator) -> None:
    figures, _ = measure(translator, SOURCES, REFERENCES, translator.policy("fixed:2"), beam=1)
    recipe = Recipe("runs/x", "0123456789ab", "corpus/test", "de-en", "0.0", "2.0", 1)
    head, row, *notes = evaluation_table(Evaluation(recipe, [figures])).splitlines()
    stored = json.loads(evaluation_json(Evaluation(recipe, [figures])))["results"][0]
    assert len(head) == len(row)
    assert row.split()[:5] == [
        stored["policy"],
        *(f"{stored['scores'][name]['value']:.2f}" for name in ("bleu", "tokenized_bleu", "chrf")),
        f"{stored['average_exit']:.2f}",
    ]
    assert [note.split()[0] for note in notes] == ["BLEU", "tokenized", "chrF", "recipe"]
    assert stored == asdict(figures)


def test_columns_of_figures_end_together() -> None:
    assert aligned_table([["policy", "AE"], ["fixed:10", "1"], ["x", "10.00"]]) == ["policy       AE", "fixed:10      1", "x         10.00"]
