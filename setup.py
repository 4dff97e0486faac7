"""Builds the optional native module; everything else is in pyproject.toml."""

from setuptools import Extension, setup

FOLDER = "engine/wire/native/src"

# `optional`: without a C compiler the build goes on, and raymirror copies in pure Python. The stable interface of
# CPython 3.11 (abi3): one file serves 3.11 and all later versions.
NATIVE = Extension(
    "engine.wire.native._native",
    sources=[f"{FOLDER}/{name}.c" for name in ("module", "crc32c", "survey", "lz4", "merge")],
    depends=[f"{FOLDER}/native.h"],
    extra_compile_args=["-O3", "-std=c11", "-Wall", "-Wextra", "-fno-strict-aliasing"],
    py_limited_api=True,
    optional=True,
)

setup(ext_modules=[NATIVE], options={"bdist_wheel": {"py_limited_api": "cp311"}})
