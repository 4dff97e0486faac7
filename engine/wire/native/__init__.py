"""The compiled way of a batch: optional C functions (`src/`) for what `engine/wire` does to every batch and record.

The Python way is the reference and the fallback. The C functions do only what is regular: a batch that they cannot take
goes to the Python way, which judges it and has the words for errors. Both ways give the same bytes, and the same tests
run on both.

`module` is None where the functions were not built, were built for another machine or for other sources, or where
`RAYMIRROR_NATIVE=off`. Functions that have both ways look at it at each call.
"""

from typing import cast

from engine.base import native_switch
from engine.wire.native.functions import NativeFunctions

PURE_PYTHON = "pure Python"
"""How `in_use` begins where the functions are not used."""

_INTERFACE = 2
"""The functions that this code expects; the same number as in `src/module.c`."""


def _loaded() -> tuple[NativeFunctions | None, str]:
    if native_switch.is_off():
        return None, f"{PURE_PYTHON} ({native_switch.VARIABLE}=off)"
    try:
        from engine.wire.native import _native
    except ImportError as error:  # not built, or built for another platform
        cause = "not built" if "cannot import name '_native'" in str(error) else str(error)
        return None, f"{PURE_PYTHON} (the native module is {cause})"
    if _native.INTERFACE != _INTERFACE:
        return None, f"{PURE_PYTHON} (the native module was built from other sources: run `make setup`)"
    functions = cast("NativeFunctions", _native)
    return functions, "native" if _native.HAS_CRC_INSTRUCTION else "native (checksums by table: no SSE 4.2)"


module, _way = _loaded()


def in_use() -> str:
    """Return which way of a batch is in use, and why if it is not the compiled one."""
    return _way
