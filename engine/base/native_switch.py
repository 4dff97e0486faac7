"""The environment variable that turns compiled code off."""

import os

VARIABLE = "RAYMIRROR_NATIVE"


def is_off() -> bool:
    """Whether `RAYMIRROR_NATIVE=off` asks for the Python way."""
    return os.environ.get(VARIABLE, "").strip().lower() == "off"
