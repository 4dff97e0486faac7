"""Runs the parts of a bench one after the other; names a failed part with its reason, and runs the others."""

import argparse
from collections.abc import Callable, Collection
from typing import Any, TypeVar

from bench.errors import BenchError
from bench.figures import machine

T = TypeVar("T")
_WHY_CHARACTERS = 1000


class Parts:
    """`unmeasured`: the parts without figures, and why; a bench with any of them ends with exit code 1."""

    def __init__(self) -> None:
        self.unmeasured: list[dict[str, str]] = []

    def measure(self, name: str, part: Callable[[], T]) -> T | None:
        """Return the result of a part; None if it failed, after printing and storing the reason."""
        try:
            return part()
        except Exception as error:  # noqa: BLE001 - any error: it must not lose an hour of the others' figures
            why = f"{type(error).__name__}: {error}"[:_WHY_CHARACTERS]
            print(f"{name}: no figures: {why}", flush=True)
            self.unmeasured.append({"part": name, "why": why})
            return None


def report(bench: str, args: argparse.Namespace, parts: Parts, **figures: Any) -> dict[str, Any]:
    """Make the JSON object of a bench of parts; `failed`: a part has no figures."""
    return {
        "bench": bench,
        **figures,
        "unmeasured": parts.unmeasured,
        "failed": bool(parts.unmeasured),
        "quick": args.quick,
        "machine": machine(),
    }


def chosen(bench: str, what: str, words: str, known: Collection[str]) -> list[str]:
    """Read a comma-separated argument that names some of the known names. Raises BenchError."""
    names = [name.strip() for name in words.split(",") if name.strip()]
    unknown = [name for name in names if name not in known]
    if unknown or not names:
        raise BenchError(bench, f"no {what} {', '.join(unknown) or repr(words)}; known: {', '.join(known)}")
    return names
