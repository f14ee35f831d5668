"""How the package is built: exact requirements, and an extension that an overflow ends instead of
misleading it."""

import re
import shutil
import struct
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from anydepth.inference.engines.native import native_engine as engine
from anydepth.inference.engines.native.native_engine import has_native

ROOT = Path(__file__).parents[1]
SOURCES = ROOT / "anydepth" / "inference" / "engines" / "native" / "cpp"
DYNAMIC, SYMBOLS = 6, 11  # types of sections of ELF
FLAGS, FLAGS_1 = 30, 0x6FFFFFFB  # tags of its dynamic section
BIND_NOW, NOW = 0x8, 0x1

needs_extension = pytest.mark.skipif(
    not (has_native() and sys.platform.startswith("linux") and sys.byteorder == "little" and sys.maxsize > 2**32),
    reason="there was no C++ compiler when anydepth was installed, or its extension is not of 64-bit Linux",
)


def test_build_requirements_are_exact_and_those_of_the_constraints() -> None:
    required = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["build-system"]["requires"]
    constraints = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    assert {re.split(r"[=<>~! ]", each)[0] for each in required} == {"pybind11", "setuptools"}
    assert all(re.fullmatch(r"[a-z0-9]+==[0-9.]+", each) for each in required)
    assert set(required) <= set(constraints)


def test_no_file_of_the_extension_is_long_or_wide_and_every_header_says_what_it_is_for() -> None:
    texts = {file.name: file.read_text(encoding="utf-8") for file in SOURCES.rglob("*") if file.is_file()}
    assert {name.rpartition(".")[2] for name in texts} == {"cpp", "h"}
    assert [name for name, text in texts.items() if len(text.splitlines()) > 400] == []
    assert [name for name, text in texts.items() if max(map(len, text.splitlines())) > 120] == []
    assert [name for name, text in texts.items() if name.endswith(".h") and not text.startswith("// ")] == []


def test_what_is_compiled_for_each_instruction_set_shares_no_function_with_the_other_sets() -> None:
    """An inline function of a header that all sets include is kept once by the linker, perhaps with
    instructions that the processor does not have."""
    kernels = {file.name: file.read_text(encoding="utf-8") for file in (SOURCES / "kernels").glob("*.h")}
    del kernels["kernels.h"]  # the table alone, without a function
    assert [name for name, text in kernels.items() if "#include <" in text] == []
    del kernels["kernels_of_set.h"]  # puts the others together
    assert kernels
    beginning = r"(//[^\n]*\n)+#pragma once\n\nnamespace anydepth {\nnamespace ANYDEPTH_SET {\n"
    end = r"}  // namespace ANYDEPTH_SET\n}  // namespace anydepth\n"
    for name, text in kernels.items():
        found = re.fullmatch(f"{beginning}(.*){end}", text, re.DOTALL)
        assert found and "}  // namespace" not in found[2], f"{name} has something outside of the set's namespace"


class Elf:
    """The sections of a 64-bit little-endian ELF file, as far as they are needed here."""

    def __init__(self, path: Path) -> None:
        self.bytes = path.read_bytes()
        assert self.bytes[:6] == b"\x7fELF\x02\x01"
        (start,), (size, count) = struct.unpack_from("<Q", self.bytes, 40), struct.unpack_from("<HH", self.bytes, 58)
        heads = [struct.unpack_from("<IIQQQQIIQQ", self.bytes, start + number * size) for number in range(count)]
        # type, content, link
        self.sections = [(head[1], self.bytes[head[4] : head[4] + head[5]], head[6]) for head in heads]

    def dynamic(self) -> dict[int, int]:
        """The tags of the dynamic section and their values."""
        content = next(content for kind, content, _ in self.sections if kind == DYNAMIC)
        return dict(struct.unpack_from("<QQ", content, place) for place in range(0, len(content), 16))

    def imported(self) -> Iterator[str]:
        """The names of the symbols that the loader looks for elsewhere."""
        _, content, link = next(section for section in self.sections if section[0] == SYMBOLS)
        names = self.sections[link][1]
        for place in range(24, len(content), 24):
            name, _, _, section, _, _ = struct.unpack_from("<IBBHQQ", content, place)
            if section == 0:
                yield names[name : names.index(b"\0", name)].decode()


@needs_extension
def test_the_extension_is_bound_when_loaded_and_its_stack_is_guarded() -> None:
    elf = Elf(Path(engine._native.__file__))
    tags = elf.dynamic()
    assert tags.get(FLAGS, 0) & BIND_NOW or tags.get(FLAGS_1, 0) & NOW
    assert "__stack_chk_fail" in set(elf.imported())


def test_flags_that_the_compiler_does_not_take_are_left_out_and_the_extension_is_optional() -> None:
    text = (ROOT / "setup.py").read_text(encoding="utf-8")
    assert "optional=True" in text
    if shutil.which("g++") is None:
        pytest.skip("there is no g++ to try flags with")
    setup = pytest.importorskip("pybind11.setup_helpers") and load_setup(text)
    build = setup["HardenedBuild"](setup["Distribution"]())
    build.compiler = setup["new_compiler"]()
    setup["customize_compiler"](build.compiler)
    known, unknown = ["-fstack-protector-strong"], ["-fno-such-protector"]
    assert build.accepted(((unknown, known), (unknown,)), is_linking=False) == known
    assert build.accepted(((["-Wl,-z,relro,-z,now"],), (["-Wl,--no-such-option"],)), is_linking=True) == [
        "-Wl,-z,relro,-z,now"
    ]


def load_setup(text: str) -> dict[str, object]:
    """What setup.py defines, without its call of `setup`."""
    from distutils.ccompiler import new_compiler  # setuptools puts its own here
    from distutils.sysconfig import customize_compiler

    from setuptools import Distribution

    defined: dict[str, object] = {
        "Distribution": Distribution,
        "new_compiler": new_compiler,
        "customize_compiler": customize_compiler,
    }
    exec(compile(text.partition("ParallelCompile(")[0], "setup.py", "exec"), defined)
    return defined
