"""The runs of a study: what each experiment needs, and that what several need is there once."""

import pytest

from anydepth.cli.study import NAMES
from anydepth.config.loading import load_config, make_config
from anydepth.config.schema import Config
from anydepth.config.shipped import shipped_file
from anydepth.errors import UsageError
from anydepth.experiments.definition import default_second_stage
from anydepth.experiments.variants import (
    EXPERIMENTS,
    RACES,
    chosen_experiments,
    planned_variants,
    shallow,
    token_penalties,
    variant_config,
)

FIRST_STAGES = ["demo", "demo_study", "multi30k_study", "multi30k_race", "iwslt14_race", "iwslt14_de_en", "wmt14_en_fr"]


def names(experiments: list[str], config: Config, seeds: int = 1) -> list[str]:
    return [variant.run for variant in planned_variants(experiments, config, seeds=seeds)]


def test_all_experiments_share_one_aligned_run_and_train_no_run_twice() -> None:
    every = names(chosen_experiments(["all"]), Config())
    apart = [name for experiment in EXPERIMENTS if experiment not in RACES for name in names([experiment], Config())]
    assert len(every) == len(set(every))
    assert every.count("aligned") == 1
    assert set(every) == set(apart)
    assert len(apart) > len(every) + 30


def test_table1_is_the_paper_s_ten_rows_and_the_aligned_model() -> None:
    expected = {"aligned", "mixed-1", "mixed-3", "mixed-6", *(f"baseline-{depth}" for depth in range(1, 7))}
    assert set(names(["table1"], Config())) == expected


@pytest.mark.parametrize(
    ("blocks", "paths"), [(1, ["mixed-1"]), (2, ["mixed-1", "mixed-2"]), (4, ["mixed-1", "mixed-2", "mixed-4"])]
)
def test_other_depths_mix_one_half_and_all_paths(blocks: int, paths: list[str]) -> None:
    config = make_config({"model": {"blocks": blocks}})
    assert [name for name in names(["table1"], config) if name.startswith("mixed")] == paths


def test_every_second_stage_starts_from_the_aligned_run_of_its_own_seed() -> None:
    for variant in planned_variants(["figure3", "figure4", "seq-bleu"], Config(), seeds=2):
        if variant.role == "halting":
            assert variant.origin == ("aligned" if variant.seed == 1 else "aligned.2")


def test_a_second_seed_trains_every_run_again_with_other_random_numbers() -> None:
    config = Config()
    variants = planned_variants(["table1"], config, seeds=2)
    seeds = {variant.run: variant_config(variant, config, ()).training.seed for variant in variants}
    assert len(variants) == 2 * len(names(["table1"], config))
    assert (seeds["mixed-3"], seeds["mixed-3.2"]) == (config.training.seed, config.training.seed + 1)


@pytest.mark.parametrize("name", FIRST_STAGES)
def test_every_variant_of_every_shipped_first_stage_has_settings_that_can_be(name: str) -> None:
    config = load_config(shipped_file(name), ["training.minutes=none"])
    for variant in planned_variants(list(EXPERIMENTS), config, seeds=1):
        made = variant_config(variant, config, default_second_stage(config))
        is_second = variant.origin is not None
        assert made.training.updates == (config.training.updates // 4 if is_second else config.training.updates)


def test_the_shallow_rival_has_the_parameters_of_the_deep_decoder() -> None:
    config = make_config(
        {"model": {"encoder": {"blocks": 6, "dim": 64, "ffn_dim": 256}, "decoder": {"dim": 64, "ffn_dim": 256}}}
    )
    made = variant_config(shallow(config), config, ())
    # A decoder block has 16 d^2 parameters here and an encoder block 12 d^2: five of one are seven
    # of the other, 80 against 84.
    assert (made.model.blocks, made.model.encoder.blocks, made.model.exits) == (1, 6 + 7, "last")


def test_an_unknown_experiment_is_refused_with_the_known_ones() -> None:
    with pytest.raises(UsageError, match=r"there is no study 'table4'; choose from table1, table2, .*, all"):
        chosen_experiments(["table4"])


def test_the_help_names_every_experiment() -> None:
    assert NAMES.split(", ") == [*EXPERIMENTS, "all"]


def test_experiments_come_in_the_order_of_the_paper() -> None:
    assert chosen_experiments(["figure3", "table1"]) == ["table1", "figure3"]
    assert chosen_experiments(["all"]) == [name for name in EXPERIMENTS if name not in RACES]


def test_the_race_is_run_where_it_is_named_and_not_as_a_part_of_all() -> None:
    assert chosen_experiments(["all", "race"]) == [name for name in EXPERIMENTS if name != "race-own"]
    assert chosen_experiments(["all", "race-own"]) == [name for name in EXPERIMENTS if name != "race"]
    with pytest.raises(UsageError, match="race and race-own race different models"):
        chosen_experiments(["race", "race-own"])
    assert not any(name.startswith("race") for name in names(chosen_experiments(["all"]), Config()))


@pytest.mark.parametrize(("blocks", "plain"), [(6, [1, 2, 3]), (3, [1, 2]), (2, [1])])
def test_everybody_in_the_race_learns_from_the_same_text_for_the_same_updates(blocks: int, plain: list[int]) -> None:
    config = make_config({"model": {"blocks": blocks}})
    teacher, start, *others = planned_variants(["race"], config, seeds=1)
    assert (teacher.run, teacher.targets) == (f"baseline-{blocks}", "references")
    assert (start.run, start.targets, start.origin) == ("race-start", "references", None)
    assert start.changes == others[0].changes
    runs = ["race-adaptive", *(f"race-plain-{depth}" for depth in plain), "race-deep-encoder"]
    assert [variant.run for variant in others] == runs
    assert {variant.targets for variant in others} == {"both"}
    made = [variant_config(variant, config, ()) for variant in others]
    assert [variant.origin for variant in others] == [start.run, *([teacher.run] * len(plain)), None]
    assert {each.training.updates for each in made} == {config.training.updates}
    assert [each.model.blocks for each in made] == [blocks, *plain, 1]
    assert [len(each.model.classifier_exits) for each in made] == [blocks, *([1] * (len(plain) + 1))]
    assert [each.model.attended_states for each in made] == ["shared", *(["below"] * (len(plain) + 1))]
    weights = made[0].training.exit_weights
    assert isinstance(weights, list) and len(weights) == blocks
    assert (weights[0], weights[-1]) == (1.5, 2.0)
    assert made[-1].model.encoder.blocks > config.model.encoder.blocks == made[0].model.encoder.blocks


def test_what_a_race_trains_once_has_all_seeds_where_another_experiment_or_the_user_asks_for_them() -> None:
    config = Config()
    once = {variant.name for variant in planned_variants(["race"], config, seeds=2) if variant.seed == 2}
    assert once == {"race-adaptive"}
    named = planned_variants(["race"], config, seeds=2, repeated=("race-plain-2", "baseline-6"))
    assert {variant.name for variant in named if variant.seed == 2} == {"race-adaptive", "race-plain-2", "baseline-6"}
    both = planned_variants(["race", "table1"], config, seeds=2)
    assert {"baseline-6", "race-adaptive"} < {variant.name for variant in both if variant.seed == 2}
    few = planned_variants(["race"], config, seeds=4, repeated=("race-plain-2:3",))
    assert [each.seed for each in few if each.name == "race-plain-2"] == [1, 2, 3]
    assert [each.seed for each in few if each.name == "race-adaptive"] == [1, 2, 3, 4]
    with pytest.raises(UsageError, match=r"--repeat race-plain-2:many: 'many' is no number of seeds"):
        planned_variants(["race"], config, seeds=2, repeated=("race-plain-2:many",))
    with pytest.raises(UsageError, match=r"^--repeat race-plain-9: there is no such run; choose from baseline-6, "):
        planned_variants(["race"], config, seeds=2, repeated=("race-plain-9",))


def test_a_deep_encoder_learns_at_a_rate_of_its_own() -> None:
    config = make_config({"training": {"learning_rate": 2e-3, "warmup": 300}})
    made = variant_config(shallow(config), config, ())
    assert (made.training.learning_rate, made.training.warmup) == (1e-3, 600)


def test_an_oracle_without_penalties_for_tokens_is_refused() -> None:
    assert token_penalties("c", 6) != token_penalties("ll", 6)
    with pytest.raises(UsageError, match=r"^the oracle 'bleu' has no penalties for tokens; those that have: c, ll$"):
        token_penalties("bleu", 6)
