"""The tests of the native engine leave themselves out where it was not built: where it can be
built, that is a failure."""

import shutil

import pytest

from anydepth.inference.engines.native.native_engine import has_native


@pytest.mark.skipif(not any(map(shutil.which, ("c++", "g++", "clang++"))), reason="there is no C++ compiler")
def test_where_there_is_a_compiler_the_native_engine_is_built() -> None:
    assert has_native()
