"""Settings from TOML files and back; `--set model.blocks=3`; unknown keys are refused with the
nearest match."""

import difflib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import tomli_w
from pydantic import BaseModel, ValidationError

from anydepth.config.schema import Config
from anydepth.errors import ConfigError
from anydepth.files.atomic import write_text
from anydepth.files.reading import Unreadable, parse_toml, read_toml, shortened, shown

UNSET = "none"  # on the command line: back to the default


def load_config(path: Path, changes: Iterable[str] = (), *, over: Config | None = None) -> Config:
    """The settings in the TOML file at `path`, with `changes` such as "model.blocks=3" applied over
    them.

    What the file does not name is as in `over`, where given, and else at its default.
    """
    values = read_settings(path)
    return make_config(
        values if over is None else _merged(over.model_dump(exclude_none=True), values), changes, origin=str(path)
    )


def read_settings(path: Path) -> dict[str, Any]:
    """The contents of the TOML file at `path`, unchecked."""
    try:
        return read_toml(Path(path))
    except FileNotFoundError:
        raise ConfigError(f"there is no configuration at {path}") from None
    except OSError as error:
        raise ConfigError(
            f"cannot read {path}: {error.strerror or error}; check the path and its permissions"
        ) from error
    except Unreadable as error:
        raise ConfigError(f"{path} is not valid TOML: {error}") from error


def _merged(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of both; where both have a key, that of `above`."""
    merged = dict(below)
    for key, value in above.items():
        inner = merged.get(key)
        merged[key] = _merged(inner, value) if isinstance(value, Mapping) and isinstance(inner, Mapping) else value
    return merged


def make_config(values: Mapping[str, Any], changes: Iterable[str] = (), *, origin: str = "configuration") -> Config:
    """The settings in `values`, with `changes` applied; anything wrong is a ConfigError of one
    sentence, which begins with the changes that are to blame, as in "--set model.blocks=0: ...", or
    with `origin` where it is the values themselves."""
    changes = list(changes)
    made = _settings_or_problem(values, changes)
    if isinstance(made, Config):
        return made
    guilty = [
        change
        for place, change in enumerate(changes)
        if _settings_or_problem(values, changes[:place] + changes[place + 1 :]) != made
    ]
    if not guilty and _settings_or_problem(values, []) != made:
        guilty = changes  # none alone: the same change twice, say
    raise ConfigError(f"{' '.join(f'--set {shortened(change)}' for change in guilty) or origin}: {made}")


def _settings_or_problem(values: Mapping[str, Any], changes: Iterable[str]) -> Config | str:
    """The settings in `values` with `changes`, or what is wrong with them."""
    merged = {key: dict(value) if isinstance(value, Mapping) else value for key, value in values.items()}
    for change in changes:
        _apply_change(merged, change)
    try:
        return Config.model_validate(merged)
    except ValidationError as error:
        return _first_problem(error)


def with_changes(config: Config, changes: Iterable[str]) -> Config:
    """A copy of `config` with `changes` such as "training.updates=200" applied."""
    return make_config(config.model_dump(exclude_none=True), changes)


def save_config(config: Config, path: Path) -> None:
    """Writes every setting, defaults included, so that a later change of defaults cannot change a
    run."""
    write_text(path, tomli_w.dumps(config.model_dump(exclude_none=True)))


def _apply_change(values: dict[str, Any], change: str) -> None:
    name, equals, text = change.partition("=")
    if not equals or not name.strip():
        raise ConfigError(f"--set {shortened(change)} is not of the form section.key=value, for example model.blocks=3")
    *sections, key = name.strip().split(".")
    place: Any = values
    for section in sections:
        inner = place.get(section, {})
        if not isinstance(inner, Mapping):
            raise ConfigError(
                f"--set {shortened(change)}: {section} is a setting, not a section; give it a value of its own"
            )
        place[section] = dict(inner)
        place = place[section]
    value = _parse_value(text.strip())
    if value == UNSET and _is_setting(sections, key):
        place.pop(key, None)
    else:
        place[key] = value


def _is_setting(sections: list[str], key: str) -> bool:
    """Whether there is a setting of that name to go back to its default."""
    section: type[BaseModel] | None = Config
    for name in sections:
        section = _section(section, name) if section is not None else None
    return section is not None and key in section.model_fields and _section(section, key) is None


def _section(above: type[BaseModel], name: str) -> type[BaseModel] | None:
    """The section `name` in the section `above`, if there is one."""
    annotation = above.model_fields[name].annotation if name in above.model_fields else None
    return annotation if isinstance(annotation, type) and issubclass(annotation, BaseModel) else None


def _parse_value(text: str) -> Any:
    """A TOML value; text that is not TOML stands for itself, so that words need no quotes."""
    if "\n" in text:
        return text
    try:
        return parse_toml(f"value = {text}")["value"]
    except Unreadable:
        return text


def _first_problem(error: ValidationError) -> str:
    problems = error.errors()
    # a union reports every branch
    problem = next((each for each in problems if each["type"] != "literal_error"), problems[0])
    place = [str(part) for part in problem["loc"]]
    if problem["type"] == "extra_forbidden":
        known = _known_keys(place[:-1])
        near = difflib.get_close_matches(place[-1], known, n=1)
        hint = f"did you mean {'.'.join([*place[:-1], near[0]])}?" if near else f"known here: {', '.join(known)}"
        return f"there is no setting {'.'.join(place)}; {hint}"
    if problem["type"] == "value_error":
        return str(problem["ctx"]["error"])
    if problem["type"] == "model_type":
        choices = ", ".join(_known_keys(place))
        return (
            f"{'.'.join(place)} is a section of settings and cannot be {shown(problem['input'])}; set one of {choices}"
        )
    name = ".".join(
        part
        for part in place
        if part not in {"literal", "list"} and not part.startswith(("literal[", "list[", "constrained"))
    )
    return f"{name} = {shown(problem['input'])} cannot be used: {problem['msg'][0].lower()}{problem['msg'][1:]}"


def _known_keys(sections: list[str]) -> list[str]:
    section: type[BaseModel] = Config
    for name in sections:
        annotation = section.model_fields[name].annotation
        assert isinstance(annotation, type) and issubclass(annotation, BaseModel)
        section = annotation
    return list(section.model_fields)
