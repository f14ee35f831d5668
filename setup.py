"""Builds the native engine where there is a C++ compiler; without one everything else is installed all the same."""

from glob import glob

from pybind11.setup_helpers import ParallelCompile, Pybind11Extension, build_ext
from setuptools import setup

FOLDER = "anydepth/inference/native"

ParallelCompile("NPY_NUM_BUILD_JOBS", default=2).install()
setup(
    ext_modules=[
        Pybind11Extension(
            "anydepth.inference.native._native",
            sorted(glob(f"{FOLDER}/cpp/*.cpp")),
            depends=sorted(glob(f"{FOLDER}/cpp/*.h")),
            cxx_std=17,
            # No flags for one processor: the kernels are compiled for each instruction set and chosen when the engine is made.
            extra_compile_args=["-O3"],
            extra_link_args=["-pthread"],
            optional=True,
        )
    ],
    cmdclass={"build_ext": build_ext},
)
