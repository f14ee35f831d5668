"""Cases: something hostile in a copy of the valid world, and the command that meets it."""

import json
import random
import shlex
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from hostile.commands import CONFIG_COMMANDS, OPTIONS, OTHER_FILES, PLACES, RESUME, SETTINGS, TEXT_FILES, TRAIN
from hostile.values import (
    DEEP,
    DIGITS,
    TOML_VALUES,
    Raw,
    hostile_file,
    hostile_json,
    hostile_line,
    hostile_place,
    hostile_toml,
    setting,
    without,
    written,
)

NUMBERS = [
    "1500000000",
    "-1",
    "0",
    "2000000000",
    str(2**63),
    str(2**64),
    DIGITS,
    "nan",
    "inf",
    "-inf",
    "1e999",
    "1e308",
    "",
    "x",
    "1.5",
]
NUMBERS += ["\u0661", "0x10", "1_0"]  # digits that are none, or that only Python knows
TEXTS = [
    "",
    " ",
    "..",
    "\n",
    "a\nb",
    "\x1b[31m",
    "\udcff",
    "x" * 5000,
    "/dev/null",
    "/dev/zero",
    "-",
    "--",
    "none/none",
    "\u202e",
    "loop",
]
POLICIES = [
    "fixed",
    "uniform",
    "sequence",
    "multinomial",
    "geometric",
    "confidence",
    "margin",
    "similarity",
    "shortlist",
    "",
    "x" * 9000,
]
ENGINES = ("torch", "native", "onnx")
MANIFEST = "exits/export/onnx/manifest.json"


@dataclass(frozen=True)
class Case:
    """What `spoil` does to a copy of the valid world, and the arguments of the command that comes
    then."""

    kind: str
    told: str
    arguments: list[str]
    spoil: Callable[[Path], None] = lambda folder: None


def named_cases(world: Path) -> Iterator[Case]:
    """The cases that were found by hand, most of them in a traceback or an allocation of terabytes
    once."""
    for place in (
        ("model", "encoder", "dim"),
        ("model", "decoder", "ffn_dim"),
        ("model", "blocks"),
        ("model", "max_length"),
    ):
        for size in ("1000000000", "256" if place[-1] == "blocks" else "65536", DIGITS):
            for command in (*CONFIG_COMMANDS[:2], RESUME):
                spoil = setting("exits/config.toml", place, Raw(size), world)
                yield Case("config", f"{'.'.join(place)} = {size[:12]}", shlex.split(command), spoil)
    for engine in ENGINES:
        yield Case("option", "--beam 1500000000", ["translate", "exits", "--engine", engine, "--beam", "1500000000"])
        for words in ("2000000000", "1000000", DIGITS):
            policy = f"shortlist:{words}:0.5"
            yield Case("policy", policy[:24], ["translate", "exits", "--engine", engine, "--policy", policy])
    for policy in (
        f"fixed:{DIGITS}",
        f"uniform:{DIGITS}",
        f"confidence:{DIGITS}",
        "confidence:" + "0.5," * 30_000 + "1",
    ):
        yield Case("policy", policy[:24], ["translate", "exits", "--policy", policy])
    for bad in ("NaN", "-Infinity", "true", '"1.5"', "null", "0", "1e308"):
        for name in ("average_exit", "flops_share", "bleu"):
            spoil = setting("exits/operating_points.json", ("sets", 0, "points", 0, name), Raw(bad), world)
            yield Case("points", f"{name} = {bad}", ["translate", "exits", "--average-exit", "1.01"], spoil)
    onnx = ["translate", "exits", "--engine", "onnx"]
    yield Case("manifest", "no encoder", onnx, without(MANIFEST, ("files", "encoder.onnx"), world))
    for odd in ("../model.safetensors", "/etc/passwd", "../../../../etc/passwd", "", ".", "a/b"):
        text = (world / MANIFEST).read_text(encoding="utf-8").replace('"encoder.onnx"', json.dumps(odd))
        yield Case("manifest", f"encoder is {odd}", onnx, written(MANIFEST, text.encode()))
    for line in ('{"update": ', '{"update": 1e999}\n', "[" * DEEP + "\n", f'{{"update": {DIGITS}}}\n', "null\n", "3\n"):
        yield Case("records", "metrics.jsonl", shlex.split(RESUME), written("exits/metrics.jsonl", line.encode()))
    for text in ("a = " + "[" * 50_000, "a" + ".a" * 30_000 + "=1", "[" * 60_000, "a=" + DIGITS, "x" * 10_000_000):
        yield Case("config", f"{text[:12]}...", shlex.split(TRAIN), written("tiny.toml", text.encode()))
    several = "model.blocks=3\n[training]\nupdates=9"
    for change in (
        "model.blocks=" + DIGITS,
        "model.blocks=" + "[" * 50_000,
        several,
        "a" * 50_000 + "=1",
        "a." * 30_000 + "a=1",
    ):
        yield Case("config", f"--set {change[:16]}", [*shlex.split(TRAIN), "--set", change])
    for name in ("learning_rate", "clip_norm", "weight_decay", "label_smoothing", "minutes", "gradient_ratio"):
        yield Case("config", f"{name} = 1e308", [*shlex.split(TRAIN), "--set", f"training.{name}=1e308"])
    yield Case("text", "an endless line", ["translate", "exits", "/dev/zero"])


def drawn_cases(world: Path, randomness: random.Random) -> Iterator[Case]:
    """Cases without end: valid things of every kind in turn, one place of each made hostile."""
    texts = {file: (world / file).read_text(encoding="utf-8") for file in TEXT_FILES}
    while True:
        yield hostile_text_case(randomness, texts)
        yield hostile_text_case(randomness, texts)
        file = randomness.choice(list(OTHER_FILES))
        told, spoil = (
            hostile_place(randomness, file) if randomness.random() < 0.4 else hostile_file(randomness, world, file)
        )
        yield Case("files", f"{file}: {told}", shlex.split(randomness.choice(OTHER_FILES[file])), spoil)
        command = randomness.choice(list(OPTIONS))
        option, value = randomness.choice(OPTIONS[command].split()), randomness.choice(NUMBERS)
        yield Case("option", f"{option} {value[:20]}", [*shlex.split(command), option, value])
        command, value = randomness.choice(PLACES), randomness.choice(TEXTS)
        arguments = [value if word.startswith("@") else word for word in shlex.split(command)]
        yield Case("option", f"{command} is {value[:20]!r}", arguments)
        yield Case(
            "policy",
            "drawn",
            ["translate", "exits", "--engine", randomness.choice(ENGINES), "--policy", drawn_policy(randomness)],
        )
        values = [*NUMBERS, *TEXTS, *(each.text for each in TOML_VALUES.values())]
        change = f"{randomness.choice(SETTINGS.split())}={randomness.choice(values)}"
        yield Case("config", f"--set {change[:30]}", [*shlex.split(TRAIN), "--set", change])


def hostile_text_case(randomness: random.Random, texts: dict[str, str]) -> Case:
    """A TOML or JSON file, or one of JSON lines, with one thing made hostile."""
    file = randomness.choice(list(TEXT_FILES))
    ending = file.rpartition(".")[2]
    kind = (
        "config"
        if ending == "toml"
        else "points"
        if "points" in file
        else "manifest"
        if "manifest" in file
        else "records"
    )
    command = shlex.split(randomness.choice(TEXT_FILES[file]))
    if randomness.random() < 0.12:
        told, spoil = hostile_place(randomness, file)
    else:
        told, data = {"toml": hostile_toml, "json": hostile_json, "jsonl": hostile_line}[ending](
            randomness, texts[file]
        )
        spoil = written(file, data)
    return Case(kind, f"{file}: {told}", command, spoil)


def drawn_policy(randomness: random.Random) -> str:
    """The name of a policy, or nearly, with hostile arguments."""
    values = [*NUMBERS, "0.5", "0.5,0.5", "3", "seed=" + DIGITS, ",", ":", "0.5,,"]
    return ":".join(
        [randomness.choice(POLICIES), *(randomness.choice(values) for _ in range(randomness.randint(0, 3)))]
    )
