"""The environment variable that turns compiled code off."""

import os

VARIABLE = "RAYMIRROR_NATIVE"


def is_off() -> bool:
    """Whether `RAYMIRROR_NATIVE=off` (or `false`, `no`, `0`) asks for the Python way."""
    return os.environ.get(VARIABLE, "").strip().lower() in ("off", "false", "no", "0")
