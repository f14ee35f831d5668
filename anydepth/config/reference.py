"""The page of all settings, made from the typed models: name, values, default and meaning."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import BaseModel

from anydepth.config.schema import Config

Schema = Mapping[str, Any]

BOUNDS = {"minimum": "from", "exclusiveMinimum": "above", "maximum": "to", "exclusiveMaximum": "to below"}
KINDS = {"integer": "whole number", "number": "number", "boolean": "`true` or `false`", "null": "none"}
INTRODUCTION = """\
# Settings

Every setting of a run, as `anydepth configs --reference` prints it. A TOML file has the sections
below, with what differs from the defaults; on the command line a setting is changed with `--set`,
as in `--set model.encoder.dim=64`, and goes back to its default with `--set training.minutes=none`.
A misspelt name is refused with the nearest one. `config.toml` in a run directory has them all.
`anydepth configs` lists the settings that come with the package.
"""


def settings_reference() -> str:
    """The page in Markdown: a table for each section, in the order of the models."""
    return "\n".join(
        [INTRODUCTION, *(line for name, section in sections(Config) for line in section_table(name, section))]
    )


def sections(model: type[BaseModel], name: str = "") -> Iterator[tuple[str, type[BaseModel]]]:
    """The sections of settings with their dotted names, each before those inside it."""
    if name:
        yield name, model
    for key, field in model.model_fields.items():
        if (inner := section_of(field.annotation)) is not None:
            yield from sections(inner, f"{name}.{key}" if name else key)


def section_of(annotation: Any) -> type[BaseModel] | None:
    """The section that a field is, unless it is a setting."""
    return annotation if isinstance(annotation, type) and issubclass(annotation, BaseModel) else None


def section_table(name: str, section: type[BaseModel]) -> list[str]:
    """The heading, what the section is about, and a row for each setting."""
    schema = section.model_json_schema()
    rows = [
        f"| `{name}.{key}` | {describe_values(schema['properties'][key])} | {describe_default(field.default)} "
        f"| {' '.join((field.description or '').split())} |"
        for key, field in section.model_fields.items()
        if section_of(field.annotation) is None
    ]
    return [
        f"## {name}",
        "",
        " ".join(str(section.__doc__).split()),
        "",
        "| setting | values | default | meaning |",
        "|---|---|---|---|",
        *rows,
        "",
    ]


def describe_values(schema: Schema) -> str:
    """The values that a setting takes, with their limits."""
    if "anyOf" in schema:
        return ", or ".join(describe_values(choice) for choice in schema["anyOf"])
    if "enum" in schema:
        return ", ".join(f"`{value}`" for value in schema["enum"])
    if schema["type"] == "array":
        return f"a list, each a {describe_values(schema['items'])}"
    limits = [f"{word} {describe_limit(schema[bound])}" for bound, word in BOUNDS.items() if bound in schema]
    return " ".join([KINDS[schema["type"]], *limits])


def describe_limit(value: int | float) -> str:
    """A limit as people write it, with commas."""
    return f"{int(value):,}" if value == int(value) else f"{value:g}"


def describe_default(value: object) -> str:
    """A default as it is written in a file."""
    return "none" if value is None else f"`{json.dumps(value)}`"
