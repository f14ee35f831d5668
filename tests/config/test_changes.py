"""--set: changes are TOML values, words need no quotes, and what is wrong is named."""

import re

import pytest

from anydepth.config.loading import make_config, with_changes
from anydepth.errors import ConfigError


def refused(message: str, *changes: str, values: dict[str, object] | None = None) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        make_config(values or {}, changes)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("change", ["model.blocks", "", "=3", " =3"])
def test_a_change_without_name_or_value_is_refused_with_an_example(change: str) -> None:
    refused(rf"^--set {re.escape(change)} is not of the form section.key=value, for example model.blocks=3$", change)


@pytest.mark.parametrize(
    ("change", "unset", "given"),
    [
        ("model=3", "model is a section of settings and cannot be 3; set one of blocks, heads, encoder", None),
        (
            "model.blocks.x=1",
            r"model.blocks = {'x': 1} cannot be used: input should be a valid integer",
            "blocks is a setting, not a section",
        ),
        (
            "training.mode.x=1",
            r"training.mode = {'x': 1} cannot be used: input should be 'aligned'",
            "mode is a setting, not a section",
        ),
        (
            "training.exit_weights.x=1",
            r"training.exit_weights = {'x': 1} cannot be used: input should be a valid list",
            "exit_weights is a setting, not a section; give it a value of its own",
        ),
        (
            "model.encoder=small",
            "model.encoder is a section of settings and cannot be 'small'; set one of blocks, dim, ffn_dim",
            None,
        ),
        ("model.=1", r"there is no setting model\.; known here: blocks, heads", None),
        (".=1", "there is no setting ; known here: model, training", None),
    ],
)
def test_a_change_that_mistakes_a_setting_for_a_section_is_refused(change: str, unset: str, given: str | None) -> None:
    refused(unset, change)
    refused(
        given or unset,
        change,
        values={"model": {"blocks": 4}, "training": {"mode": "aligned", "exit_weights": [1, 2, 3, 4]}},
    )


def test_changes_are_toml_values_and_words_need_no_quotes() -> None:
    changes = [
        "model.classifiers=tied",
        'model.exits = "all"',
        "model.encoder.dim= 64",
        "model.dropout=0.25",
        "training.exit_weights=1/sqrt(n)",
        "training.learning_rate=3e-3",
        "training.updates=20_000",
    ]
    config = make_config({"model": {"dropout": 0.1, "heads": 2}}, changes)
    assert (config.model.classifiers, config.model.exits, config.model.encoder.dim) == ("tied", "all", 64)
    assert (config.model.dropout, config.model.heads) == (0.25, 2)
    assert (config.training.exit_weights, config.training.learning_rate, config.training.updates) == (
        "1/sqrt(n)",
        0.003,
        20_000,
    )
    assert make_config({}, ["training.exit_weights=[1, 2, 3, 4, 5, 6.5]"]).training.exit_weights == [1, 2, 3, 4, 5, 6.5]


def test_the_last_change_of_a_setting_counts_and_the_given_values_stay_as_they_were() -> None:
    values = {"model": {"encoder": {"dim": 64}}}
    assert make_config(values, ["model.encoder.dim=32", "model.encoder.dim=16"]).model.encoder.dim == 16
    assert values == {"model": {"encoder": {"dim": 64}}}


def test_changing_a_configuration_leaves_the_rest_of_it_alone() -> None:
    config = make_config({}, ["training.minutes=3", "model.blocks=2"])
    changed = with_changes(config, ["training.updates=7"])
    assert changed == make_config({}, ["training.minutes=3", "model.blocks=2", "training.updates=7"])
    with pytest.raises(
        ConfigError,
        match=r"^--set training.update=7: there is no setting training.update; did you mean training.updates\?",
    ):
        with_changes(config, ["training.update=7"])


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ("training.minuets=none", r"there is no setting training.minuets; did you mean training.minutes\?"),
        ("trainig.minutes=none", r"there is no setting trainig; did you mean training\?"),
        ("training.minutes.more=none", r"training.minutes = .* cannot be used"),
        ("model=none", r"model is a section of settings and cannot be 'none'"),
    ],
)
def test_none_for_what_is_no_setting_is_refused(change: str, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        make_config({}, [change])


def test_none_on_the_command_line_unsets_what_was_set() -> None:
    limited = make_config({"training": {"minutes": 30, "patience": 3}})
    freed = make_config(limited.model_dump(exclude_none=True), ["training.minutes=none"])
    assert (freed.training.minutes, freed.training.patience) == (None, 3)
