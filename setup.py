"""Builds the native engine where there is a C++ compiler; without one everything else is installed all the same."""

import sys
import tempfile
from glob import glob
from pathlib import Path

from pybind11.setup_helpers import ParallelCompile, Pybind11Extension, build_ext
from setuptools import setup
from setuptools.errors import CompileError, LinkError

SOURCES = "anydepth/inference/engines/native/cpp"
# What makes an overflow end the program instead of doing harm, each where the compiler has it: of
# the alternatives the first that it takes.
COMPILE_FLAGS = (
    (["-fstack-protector-strong"],),
    (["-U_FORTIFY_SOURCE", "-D_FORTIFY_SOURCE=3"], ["-U_FORTIFY_SOURCE", "-D_FORTIFY_SOURCE=2"]),
)
LINK_FLAGS = ((["-Wl,-z,relro,-z,now"],), (["-Wl,-z,noexecstack"],))
TRIAL = '#include <string>\nextern "C" int trial(const char* text) { return (int)std::string(text).size(); }\n'


class HardenedBuild(build_ext):
    """The build with the flags above, on Linux, where they are known to be good for something."""

    def build_extensions(self) -> None:
        """Builds with every flag that the compiler takes without a word."""
        if sys.platform.startswith("linux"):
            compiling = self.accepted(COMPILE_FLAGS, is_linking=False)
            linking = self.accepted(LINK_FLAGS, is_linking=True)
            for extension in self.extensions:
                extension.extra_compile_args += compiling
                extension.extra_link_args += linking
        super().build_extensions()

    def accepted(self, groups: tuple[tuple[list[str], ...], ...], *, is_linking: bool) -> list[str]:
        """Of each group the first alternative with which a trial can be built."""
        chosen = [next((flags for flags in group if self.takes(flags, is_linking=is_linking)), []) for group in groups]
        return [flag for flags in chosen for flag in flags]

    def takes(self, flags: list[str], *, is_linking: bool) -> bool:
        """Whether a few lines can be compiled, and linked, with `flags`, a warning being a no."""
        with tempfile.TemporaryDirectory() as folder:
            source = Path(folder) / "trial.cpp"
            source.write_text(TRIAL, encoding="utf-8")
            try:
                extra = ["-O3", "-Werror", *([] if is_linking else flags)]
                objects = self.compiler.compile([str(source)], output_dir=folder, extra_postargs=extra)
                if is_linking:
                    target = str(Path(folder) / "trial.so")
                    self.compiler.link_shared_object(
                        objects, target, extra_postargs=["-Wl,--fatal-warnings", *flags], target_lang="c++"
                    )
            except (CompileError, LinkError):
                return False
        return True


ParallelCompile("NPY_NUM_BUILD_JOBS", default=2).install()
setup(
    ext_modules=[
        Pybind11Extension(
            "anydepth.inference.engines.native._native",
            sorted(glob(f"{SOURCES}/**/*.cpp", recursive=True)),
            depends=sorted(glob(f"{SOURCES}/**/*.h", recursive=True)),
            include_dirs=[SOURCES],
            cxx_std=17,
            # No flags for one processor: the kernels are compiled for each instruction set and
            # chosen when the engine is made.
            extra_compile_args=["-O3"],
            extra_link_args=["-pthread"],
            optional=True,
        )
    ],
    cmdclass={"build_ext": HardenedBuild},
)
