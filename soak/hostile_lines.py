"""Hostile lines through `translate` and `bulk`: one output line for each, and the same bytes from
every engine that bulk work runs on.

Lines are valid UTF-8 and hold whatever else a file may: control characters, separators that other
programs cut at, marks without letters, texts in every script, names of pieces, tags, numbers without
end, lines far beyond the model's limit. `--size 1` is 100,000 lines.
"""

import argparse
import random
import subprocess
import sys
import tempfile
import unicodedata
from collections import Counter
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

from killing.bulk_jobs import command, translated
from killing.crew_trials import WORDS, environment

FULL_SIZE = 100_000
LONGEST = 20_000  # characters
SEPARATORS = "\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029\r\t\xa0\u3000\ufeff\u200b\u200d\u202e"
PIECES = ["<s>", "</s>", "<unk>", "<pad>", "<0xE2>", "<0x0A>", "\u2581", "\u2581\u2581"]
PIECES += ["&lt;", "<b>", "\\n", "\\ud800"]
VALUES = ["{}", '{"text": 1}', "null", "NaN", "1e999", "9" * 400, "../../etc/passwd", "%s%n"]
VALUES += ["'; --", "=1+1", "\x1b[31m"]


def characters(chance: random.Random, least: int, most: int) -> str:
    """Up to 40 characters out of a range, without those that end a line or are none."""
    drawn = (chr(chance.randint(least, most)) for _ in range(chance.randint(1, 40)))
    return "".join(each for each in drawn if each != "\n" and unicodedata.category(each) != "Cs")


KINDS: dict[str, Callable[[random.Random], str]] = {
    "empty": lambda chance: "",
    "spaces": lambda chance: "".join(chance.choices(" \t\xa0\u3000", k=chance.randint(1, 9))),
    "words": lambda chance: " ".join(chance.choices(WORDS, k=chance.randint(1, 25))),
    "controls": lambda chance: characters(chance, 0, 31),
    "separators": lambda chance: chance.choice(SEPARATORS).join(chance.choices(WORDS, k=4)),
    "basic plane": lambda chance: characters(chance, 32, 0xFFFD),
    "beyond it": lambda chance: characters(chance, 0x10000, 0x10FFFF),
    "marks alone": lambda chance: characters(chance, 0x300, 0x36F),
    "pieces": lambda chance: chance.choice(["", " "]).join(chance.choices(PIECES, k=chance.randint(1, 12))),
    "values": lambda chance: " ".join(chance.choices(VALUES, k=chance.randint(1, 4))),
    "one word": lambda chance: chance.choice(WORDS) * chance.randint(2, 60),
    "much too long": lambda chance: (chance.choice(WORDS) + " ") * chance.randint(300, 900),
    "one letter": lambda chance: chance.choice("aä\u4e2d\U0001f600") * chance.randint(1, LONGEST // 20),
}
WEIGHTS = [1 if name == "much too long" else 12 for name in KINDS]


def write_hostile(file: Path, count: int, chance: random.Random) -> Counter[str]:
    """So many lines, the last without an end; how many there are of each kind."""
    kinds = chance.choices(list(KINDS), WEIGHTS, k=count)
    lines = [KINDS[kind](chance)[:LONGEST] for kind in kinds]
    file.write_bytes("\n".join([*lines[:-1], lines[-1] or "x"]).encode())
    return Counter(kinds)


def bulk_output(source: Path, to: Path, *options: str) -> bytes:
    """The joined shards of a bulk job."""
    subprocess.run(
        command("bulk", source, "--to", to, "--shard-lines", 3000, *options),
        env=environment(),
        stderr=subprocess.DEVNULL,
        check=True,
    )
    return b"".join(file.read_bytes() for file in sorted((to / "output" / source.name).iterdir()))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", type=float, default=1.0, help=f"share of {FULL_SIZE:,} lines")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        place, count = Path(name), max(100, round(FULL_SIZE * options.size))
        source = place / "hostile.de"
        kinds = write_hostile(source, count, random.Random(options.seed))
        plain = translated(source)[0]
        outputs = {"translate": plain, "bulk local": bulk_output(source, place / "local")}
        skipped = "; THE RAY HALF WAS SKIPPED, Ray is not installed: pip install 'anydepth[ray]'"
        if find_spec("ray") is not None:
            skipped = ""
            outputs["bulk ray"] = bulk_output(source, place / "ray", "--on", "ray")
    print(f"hostile lines of each kind: {', '.join(f'{kind} {many:,}' for kind, many in kinds.items())}")
    lines = {name: data.count(b"\n") for name, data in outputs.items()}
    different = [name for name, data in outputs.items() if data != plain]
    fine = not different and set(lines.values()) == {count} and len(set(plain.split(b"\n"))) > count // 20
    told = ", ".join(f"{name} {many:,} lines" for name, many in lines.items())
    print(
        f"hostile lines: {count:,} given, {told}; different from translate: {', '.join(different) or 'none'}{skipped}"
    )
    return 0 if fine else 1


if __name__ == "__main__":
    sys.exit(main())
