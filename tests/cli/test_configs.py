"""configs: what comes with the package is listed, printed and copied, and found by name where there
is no such file."""

from pathlib import Path

import pytest
from cli.commands import anydepth, assert_refused, done

from anydepth.config.loading import load_config
from anydepth.config.shipped import shipped_file, shipped_files, shipped_names


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder that is the current one."""
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


def test_the_list_has_every_file_with_its_first_comment_in_one_line_each(elsewhere: Path) -> None:
    listed = done("configs").out.splitlines()
    assert [line.split()[0] for line in listed] == sorted(shipped_files())
    assert {"demo", "demo_exits", "demo_study", "iwslt14_de_en", "multi30k_de_en"} <= {
        line.split()[0] for line in listed
    }
    for line in listed:
        name, _, purpose = line.partition(" ")
        first = shipped_file(name).read_text(encoding="utf-8").splitlines()[0]
        assert first == f"# {purpose.strip()}"
        assert purpose.endswith("."), "a whole sentence, not one that goes on in the next line"
    assert list(elsewhere.iterdir()) == []


def test_settings_are_printed_as_they_are(elsewhere: Path) -> None:
    demo, exits = (shipped_file(name).read_text(encoding="utf-8") for name in ("demo", "demo_exits"))
    assert done("configs", "demo").out == demo
    assert done("configs", "demo", "demo_exits").out == f"{demo}\n{exits}"


def test_all_settings_or_some_are_copied_and_a_file_that_is_there_stays(elsewhere: Path) -> None:
    done("configs", "demo", "demo_exits", "--to", "mine/some")
    assert sorted(file.name for file in (elsewhere / "mine" / "some").iterdir()) == ["demo.toml", "demo_exits.toml"]
    (elsewhere / "mine" / "some" / "demo.toml").write_text("# my own\n", encoding="utf-8")
    assert_refused(anydepth("configs", "--to", "mine/some"), "mine/some/demo.toml exists already", "--overwrite")
    assert sorted(file.name for file in (elsewhere / "mine" / "some").iterdir()) == ["demo.toml", "demo_exits.toml"], (
        "all or nothing"
    )
    assert (elsewhere / "mine" / "some" / "demo.toml").read_text(encoding="utf-8") == "# my own\n"
    done("configs", "--to", "mine/some", "--overwrite")
    copies = {file.stem: file.read_bytes() for file in (elsewhere / "mine" / "some").iterdir()}
    assert copies == {name: shipped_file(name).read_bytes() for name in shipped_names()}


def test_a_misspelt_name_is_refused_with_the_nearest_and_a_file_is_no_folder(elsewhere: Path) -> None:
    assert_refused(anydepth("configs", "dmeo"), "no settings 'dmeo' come with anydepth; did you mean demo?")
    assert_refused(anydepth("configs", "zebra"), "choose among adopt_frozen, adopt_trained, demo, demo_exits")
    assert_refused(anydepth("configs", "../configs/demo"), "no settings '../configs/demo'")
    assert_refused(anydepth("configs", "demo", "--overwrite"), "add --to DIR")
    (elsewhere / "file").write_text("", encoding="utf-8")
    assert_refused(anydepth("configs", "--to", "file"), "--to file is a file")


@pytest.mark.parametrize("given", ["multi30k_study", "configs/multi30k_study.toml"])
def test_a_name_and_a_path_as_in_a_clone_find_what_comes_with_the_package_and_say_so(
    given: str, data: Path, elsewhere: Path
) -> None:
    small = [
        f"--set={change}"
        for change in ("training.updates=1", "model.encoder.dim=8", "model.decoder.dim=8", "validation.sentences=0")
    ]
    told = done("train", given, "--data", data, "--to", "run", *small).err.splitlines()
    assert told[0] == f"settings {given}: {shipped_file('multi30k_study')}"
    shipped, made = load_config(shipped_file("multi30k_study")), load_config(elsewhere / "run" / "config.toml")
    assert (made.training.learning_rate, made.model.blocks) == (shipped.training.learning_rate, shipped.model.blocks)


def test_a_file_of_the_user_s_goes_before_one_of_the_same_name_that_is_shipped(
    data: Path, elsewhere: Path, settings: Path
) -> None:
    (elsewhere / "configs").mkdir()
    (elsewhere / "configs" / "demo.toml").write_bytes(settings.read_bytes())
    told = done("train", "configs/demo.toml", "--data", data, "--to", "run", "--set", "training.updates=1").err
    assert not told.startswith("settings")
    assert load_config(elsewhere / "run" / "config.toml").model.blocks == load_config(settings).model.blocks


@pytest.mark.parametrize(
    "given", ["other/demo.toml", "demo.toml", "configs/demo", "/configs/demo.toml", "configs/sub/demo.toml"]
)
def test_another_path_that_does_not_exist_is_refused_whatever_its_name(given: str, data: Path, elsewhere: Path) -> None:
    outcome = anydepth("train", given, "--data", data, "--to", "run")
    assert_refused(
        outcome, f"there is no configuration at {given}; name a TOML file, or settings that come with anydepth"
    )
    assert list(elsewhere.iterdir()) == []
