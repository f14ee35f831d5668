"""Settings: every shipped file loads, every mistake is one sentence with a cure."""

import math
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from anydepth.config.loading import load_config, make_config, save_config, with_changes
from anydepth.config.reference import sections, settings_reference
from anydepth.config.schema import Config, exit_weights
from anydepth.config.shipped import shipped_file, shipped_names
from anydepth.errors import ConfigError

CONFIGS = [shipped_file(name) for name in shipped_names()]


def refused(message: str, *changes: str, values: dict[str, object] | None = None) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        make_config(values or {}, changes)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.stem)
def test_every_shipped_configuration_loads_and_comes_back_from_a_file(path: Path, tmp_path: Path) -> None:
    config = load_config(path)
    save_config(config, tmp_path / "config.toml")
    assert load_config(tmp_path / "config.toml") == config


def test_there_are_shipped_configurations() -> None:
    assert CONFIGS


def test_what_was_set_comes_back_from_a_file_and_nothing_is_left_to_defaults(tmp_path: Path) -> None:
    changes = [
        "model.blocks=3",
        "training.exit_weights=[1, 2.5, 3]",
        "training.minutes=1.5",
        "training.patience=4",
        "model.classifiers=shared",
    ]
    config = make_config({}, changes)
    save_config(config, tmp_path / "config.toml")
    assert load_config(tmp_path / "config.toml") == config
    written = (tmp_path / "config.toml").read_text(encoding="utf-8")
    unset = {name for name, value in config.training.model_dump().items() if value is None}
    assert all(
        re.search(rf"^{name} = ", written, re.MULTILINE) for name in set(type(config.training).model_fields) - unset
    )


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("model.bloks=3", r"^--set model.bloks=3: there is no setting model.bloks; did you mean model.blocks\?"),
        ("model.encoder.dimm=3", r"there is no setting model.encoder.dimm; did you mean model.encoder.dim\?"),
        (
            "training.lerning_rate=3",
            r"there is no setting training.lerning_rate; did you mean training.learning_rate\?",
        ),
        ("exits.haltin=geometric", r"there is no setting exits.haltin; did you mean exits.halting\?"),
        ("modle.blocks=3", r"there is no setting modle; did you mean model\?"),
        ("zebra=3", r"there is no setting zebra; known here: model, training, exits, validation, decoding"),
        ("model.decoder.zebra=3", r"there is no setting model.decoder.zebra; known here: dim, ffn_dim"),
    ],
)
def test_an_unknown_key_or_section_is_refused_with_the_nearest_match(change: str, message: str) -> None:
    refused(message, change)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("model.blocks=0", r"model.blocks = 0 cannot be used: input should be greater than or equal to 1"),
        ("model.blocks=2.5", r"model.blocks = 2.5 cannot be used: input should be a valid integer"),
        ("model.blocks=many", r"model.blocks = 'many' cannot be used: input should be a valid integer"),
        ("model.blocks=[1]", r"model.blocks = \[1\] cannot be used: input should be a valid integer"),
        ("model.dropout=1.0", r"model.dropout = 1.0 cannot be used: input should be less than 1"),
        ("model.dropout=nan", r"model.dropout = nan cannot be used"),
        (
            "model.classifiers=knotted",
            r"model.classifiers = 'knotted' cannot be used: input should be 'untied', 'shared' or 'tied'",
        ),
        ("training.learning_rate=-1", r"training.learning_rate = -1 cannot be used: input should be greater than 0"),
        ("training.exit_weights=heavy", r"training.exit_weights = 'heavy' cannot be used"),
        ("training.seed=", r"training.seed = '' cannot be used: input should be a valid integer"),
        ("training.seed=99999999999999999999", r"training.seed = 9+ cannot be used: input should be less than"),
        ("model.blocks=true", r"model.blocks = True cannot be used: input should be a valid integer"),
        ("model.heads=4.0", r"model.heads = 4.0 cannot be used: input should be a valid integer"),
        (
            "training.exit_weights=[1, inf]",
            r"training.exit_weights.* = inf cannot be used: input should be a finite number",
        ),
        (
            "training.exit_weights=[1, -2]",
            r"training.exit_weights.* = -2 cannot be used: input should be greater than 0",
        ),
        ("decoding.length_ratio=inf", r"decoding.length_ratio = inf cannot be used"),
        (
            "exits.exit_penalty=-0.1",
            r"exits.exit_penalty = -0.1 cannot be used: input should be greater than or equal to 0",
        ),
        ("exits.exit_penalty=nan", r"exits.exit_penalty = nan cannot be used: input should be a finite number"),
        (
            "exits.kernel_width=-2.0",
            r"exits.kernel_width = -2.0 cannot be used: input should be greater than or equal to 0",
        ),
        ("exits.kernel_width=inf", r"exits.kernel_width = inf cannot be used: input should be a finite number"),
        (
            "exits.exit_loss_weight=-1",
            r"exits.exit_loss_weight = -1 cannot be used: input should be greater than or equal to 0",
        ),
        ("exits.path_weight=-1", r"exits.path_weight = -1 cannot be used: input should be greater than or equal to 0"),
        ("exits.stop_gradient=1", r"exits.stop_gradient = 1 cannot be used: input should be a valid boolean"),
        (
            "exits.halting=poisson",
            r"exits.halting = 'poisson' cannot be used: input should be 'none', 'sequence', 'multinomial' or "
            r"'geometric'",
        ),
        (
            "exits.oracle=comet",
            r"exits.oracle = 'comet' cannot be used: input should be 'likelihood', 'correctness' or 'bleu'",
        ),
        (
            "training.mode=skipped",
            r"training.mode = 'skipped' cannot be used: input should be 'aligned', 'mixed', 'confident' or 'layerdrop'",
        ),
        ("training.layer_drop=1.0", r"training.layer_drop = 1.0 cannot be used: input should be less than 1"),
        ("model.encoder=3", r"model.encoder is a section of settings and cannot be 3; set one of blocks, dim, ffn_dim"),
    ],
)
def test_a_value_of_the_wrong_kind_is_refused_with_its_name(change: str, message: str) -> None:
    refused(message, change)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (["model.decoder.dim=250"], "model.decoder.dim = 250 is not divisible by model.heads = 4; try 248 or 252"),
        (["model.encoder.dim=3"], "model.encoder.dim = 3 is not divisible by model.heads = 4; try 4"),
        (
            ["model.decoder.dim=9", "model.encoder.dim=6", "model.heads=3"],
            "model.decoder.dim = 9 is odd; sinusoidal positions need an even width, try 12",
        ),
        (
            ["training.exit_weights=[1, 2]"],
            "training.exit_weights has 2 numbers but the model has 6 exits; give one for each exit",
        ),
        (
            ["training.exit_weights=[1, 2]", "model.exits=last"],
            "training.exit_weights has 2 numbers but the model has 1 exits; give one for each exit",
        ),
        (
            ["training.mode=mixed", "model.exits=last"],
            'training.mode = "mixed" needs an exit after every block; set model.exits = "all"',
        ),
        (
            ["training.gradient_ratio=0.5", "model.exits=last"],
            'training.gradient_ratio needs an exit after every block; set model.exits = "all"',
        ),
        (
            ["training.gradient_ratio=0.5", "training.mode=mixed"],
            'training.gradient_ratio belongs to aligned training (appendix A); set training.mode = "aligned"',
        ),
        (
            ["training.exit_weights=n", "training.mode=mixed"],
            'training.exit_weights belongs to aligned training (Eq. 4); set training.mode = "aligned"',
        ),
        (
            ["exits.halting=geometric", "model.exits=last"],
            'exits.halting = "geometric" needs an exit after every block; set model.exits = "all"',
        ),
        (
            ["exits.halting=multinomial", "training.mode=mixed"],
            'exits.halting = "multinomial" learns from the states of all blocks; set training.mode = "aligned" '
            "(exits.path_weight adds mixed paths)",
        ),
        (
            ["exits.path_weight=0.5"],
            'exits.path_weight needs a halting module to draw paths from; set exits.halting, as in "geometric"',
        ),
        (
            ["exits.halting=sequence", "exits.path_weight=0.5"],
            'exits.path_weight is for tokens that leave at different blocks; exits.halting = "sequence" has none',
        ),
        (
            ["exits.halting=sequence", "exits.kernel_width=2.0"],
            'exits.kernel_width belongs to token-level oracles (Eqs. 14-17); exits.halting = "sequence" has none',
        ),
        (
            ["exits.halting=multinomial", "exits.halting_units=8"],
            'exits.halting_units = 8 needs exits.halting = "geometric", which decides after each block; '
            "set that, or exits.halting_units = 0",
        ),
        *(
            (
                ["exits.oracle=bleu", f"exits.halting={halting}"],
                'exits.oracle = "bleu" knows the best exit of a whole sentence, not of a token; set exits.halting = '
                '"sequence", or exits.oracle = "likelihood" or "correctness"',
            )
            for halting in ("none", "multinomial", "geometric")
        ),
        (
            ["training.mode=layerdrop"],
            'training.mode = "layerdrop" trains the last classifier alone, so that untied ones below would know '
            'nothing; set model.classifiers = "shared" or "tied"',
        ),
        (
            ["training.mode=layerdrop", "model.classifiers=tied", "model.exits=last"],
            'training.mode = "layerdrop" needs an exit after every block; set model.exits = "all"',
        ),
        (
            ["training.mode=layerdrop", "model.classifiers=tied", "training.gradient_ratio=0.5"],
            'training.gradient_ratio belongs to aligned training (appendix A); set training.mode = "aligned"',
        ),
        (
            ["training.mode=layerdrop", "model.classifiers=tied", "training.exit_weights=n"],
            'training.exit_weights belongs to aligned training (Eq. 4); set training.mode = "aligned"',
        ),
        (
            ["training.mode=layerdrop", "model.classifiers=tied", "exits.halting=sequence"],
            'exits.halting = "sequence" learns from the states of all blocks; set training.mode = "aligned" '
            "(exits.path_weight adds mixed paths)",
        ),
        *(
            (
                ["training.layer_drop=0.5", f"training.mode={mode}"],
                'training.layer_drop = 0.5 needs training.mode = "layerdrop"; set that, or leave it out',
            )
            for mode in ("aligned", "mixed")
        ),
        (
            ["training.lowest_confidence=0.9"],
            'training.lowest_confidence = 0.9 needs training.mode = "confident"; set that, or '
            "training.lowest_confidence = 0.5",
        ),
        *(
            (
                ["training.paths=3", f"training.mode={mode}", "model.classifiers=shared"],
                'training.paths = 3 needs training.mode = "mixed"; set that, or training.paths = 1',
            )
            for mode in ("aligned", "layerdrop")
        ),
        (
            ["validation.metric=bleu", "validation.sentences=0"],
            'validation.metric = "bleu" needs validation.sentences above 0',
        ),
    ],
)
def test_settings_that_do_not_fit_together_are_refused_with_the_rule_the_values_and_the_cure(
    changes: list[str], message: str
) -> None:
    refused(f"^(--set [^:]*: ){re.escape(message)}$", *changes)
    values: dict[str, dict[str, object]] = {}
    for change in changes:
        *sections, key = change.partition("=")[0].split(".")
        inner: dict[str, Any] = values
        for section in sections:
            inner = inner.setdefault(section, {})
        text = change.partition("=")[2]
        inner[key] = tomllib.loads(f"x = {text}")["x"] if re.match(r"[\d\[]", text) else text
    refused(f"^{re.escape(f'configuration: {message}')}$", values=values)


def test_what_is_wrong_is_blamed_on_the_options_or_on_the_file_whichever_it_is(tmp_path: Path) -> None:
    path = tmp_path / "my.toml"
    path.write_text('[training]\nmode = "mixed"\nupdates = 9\n', encoding="utf-8")
    file, typo = re.escape(str(path)), "model.blok=3"
    for changes, message in (
        ([typo], r"--set model\.blok=3: there is no setting model\.blok; "),
        (["model.heads=2", typo, "training.seed=4"], r"--set model\.blok=3: there is no setting"),
        (["model.blocks=0"], r"--set model\.blocks=0: model\.blocks = 0 cannot be used"),
        (["model.exits=last"], r'--set model\.exits=last: training\.mode = "mixed" needs an exit'),
        (["model.heads=5", "model.decoder.dim=6"], r"--set model\.heads=5: model\.encoder\.dim = 512 is not divisible"),
        (
            ["training.exit_weights=[1,2]", "training.mode=aligned"],
            r"--set training\.exit_weights=\[1,2\]: training\.exit_weights has 2",
        ),
        (
            ["training.paths=2", "training.mode=aligned"],
            r"--set training\.paths=2 --set training\.mode=aligned: training\.paths = 2 needs",
        ),
        (["model.blocks=0", "model.blocks=0"], r"--set model\.blocks=0 --set model\.blocks=0: model\.blocks = 0"),
    ):
        with pytest.raises(ConfigError, match=rf"^{message}"):
            load_config(path, changes)
    path.write_text("[model]\nblok = 3\n", encoding="utf-8")
    with pytest.raises(ConfigError, match=rf"^{file}: there is no setting model\.blok; "):
        load_config(path, ["training.seed=4"])
    path.write_text('[training]\nmode = "mixed"\nexit_weights = "n"\n', encoding="utf-8")
    assert load_config(path, ["training.mode=aligned"]).training.mode == "aligned", (
        "a change may mend what a file has wrong"
    )


def test_paths_belong_to_mixed_training_alone() -> None:
    assert make_config({}, ["training.mode=mixed", "training.paths=3"]).training.paths == 3
    assert make_config({}, ["training.mode=aligned", "training.paths=1"]).training.paths == 1
    mixed = make_config({}, ["training.mode=mixed", "training.paths=3"])
    with pytest.raises(
        ConfigError,
        match=r'^--set training\.mode=aligned: training\.paths = 3 needs training\.mode = "mixed"; set that, or',
    ):
        with_changes(mixed, ["training.mode=aligned"])
    assert with_changes(mixed, ["training.mode=aligned", "training.paths=none"]).training.paths == 1


def test_the_page_of_all_settings_is_current_and_tells_the_meaning_of_each() -> None:
    page = (Path(__file__).parents[2] / "docs" / "settings.md").read_text(encoding="utf-8")
    assert page == settings_reference(), "make it again with: anydepth configs --reference > docs/settings.md"
    rows = re.findall(r"^\| `([\w.]+)` \| (.+) \| (.+) \| (.+) \|$", page, flags=re.MULTILINE)
    names = [f"{section}.{key}" for section, model in sections(Config) for key in model.model_fields]
    assert [name for name, *_ in rows] == [name for name in names if name not in ("model.encoder", "model.decoder")]
    told = {name: (values, default, meaning) for name, values, default, meaning in rows}
    assert told["model.dropout"][:2] == ("number from 0 to below 1", "`0.3`")
    assert told["model.exits"][:2] == ("`all`, `last`", '`"all"`')
    assert told["training.minutes"][:2] == ("number above 0 to 1,000,000,000, or none", "none")
    assert told["training.exit_weights"][0].endswith("`1/n`, or a list, each a number above 0 to 1,000,000,000,000")
    assert all(meaning.endswith(".") and meaning != "None" for _, _, meaning in told.values())


@pytest.mark.parametrize(
    ("weighting", "expected"),
    [
        ('"1"', [1, 1, 1]),
        ("n", [1, 2, 3]),
        ("sqrt(n)", [1, math.sqrt(2), math.sqrt(3)]),
        ("1/sqrt(n)", [1, 1 / math.sqrt(2), 1 / math.sqrt(3)]),
        ("1/n", [1, 1 / 2, 1 / 3]),
        ("[3, 1, 2]", [3, 1, 2]),
    ],
)
def test_exit_weights_are_the_omegas_of_the_paper(weighting: str, expected: list[float]) -> None:
    config = make_config({}, ["model.blocks=3", f"training.exit_weights={weighting}"])
    assert exit_weights(config) == pytest.approx(expected)


def test_a_baseline_has_one_exit_and_one_weight() -> None:
    config = make_config({}, ["model.blocks=3", "model.exits=last", "training.exit_weights=n"])
    assert config.model.classifier_exits == (3,)
    assert exit_weights(config) == (3.0,)


def test_a_configuration_cannot_be_changed_in_place() -> None:
    config = Config()
    with pytest.raises(ValidationError, match="frozen"):
        config.model.blocks = 3
    with pytest.raises(ValidationError, match="frozen"):
        config.model = config.model


def test_a_file_that_is_no_configuration_is_named(tmp_path: Path) -> None:
    path = tmp_path / "my.toml"
    with pytest.raises(ConfigError, match=rf"^there is no configuration at {re.escape(str(path))}$"):
        load_config(path)
    path.write_text("[model\nblocks = 3", encoding="utf-8")
    with pytest.raises(ConfigError, match=rf"^{re.escape(str(path))} is not valid TOML: .* \(at line 1, column 7\)$"):
        load_config(path)
    path.write_bytes(b'x = "\xff"')
    with pytest.raises(
        ConfigError, match=rf"^{re.escape(str(path))} is not valid TOML: it is not UTF-8 \(byte 0xFF at 6\)$"
    ):
        load_config(path)
    with pytest.raises(ConfigError, match=rf"^cannot read {re.escape(str(tmp_path))}: "):
        load_config(tmp_path)
    path.write_text("[model]\nbloks = 3", encoding="utf-8")
    with pytest.raises(ConfigError, match=rf"^{re.escape(str(path))}: there is no setting model.bloks"):
        load_config(path)


def test_a_file_over_other_settings_changes_what_it_names_and_nothing_else(tmp_path: Path) -> None:
    before = make_config(
        {}, ["model.blocks=3", "model.encoder.dim=64", "training.patience=4", "training.learning_rate=0.1"]
    )
    (tmp_path / "exits.toml").write_text(
        '[exits]\nhalting = "geometric"\n[model.encoder]\nffn_dim = 99\n', encoding="utf-8"
    )
    changed = load_config(tmp_path / "exits.toml", ["training.learning_rate=0.2"], over=before)
    assert changed == with_changes(
        before, ["exits.halting=geometric", "model.encoder.ffn_dim=99", "training.learning_rate=0.2"]
    )
    assert (changed.model.blocks, changed.model.encoder.dim, changed.training.patience) == (3, 64, 4)
    (tmp_path / "exits.toml").write_text("model = 3\n", encoding="utf-8")
    with pytest.raises(ConfigError, match=r"exits.toml: model is a section of settings and cannot be 3"):
        load_config(tmp_path / "exits.toml", over=before)


@pytest.mark.parametrize("kind", ["sequence", "multinomial", "geometric"])
@pytest.mark.parametrize("oracle", ["likelihood", "correctness"])
def test_all_six_combinations_of_halting_module_and_oracle_can_be_set(kind: str, oracle: str) -> None:
    config = make_config({}, [f"exits.halting={kind}", f"exits.oracle={oracle}"])
    assert (config.exits.halting, config.exits.oracle) == (kind, oracle)


def test_the_weighting_1_may_be_written_as_a_number() -> None:
    assert make_config({}, ["training.exit_weights=1"]).training.exit_weights == "1"
