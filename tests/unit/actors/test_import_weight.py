"""Imports of the actors of a mirror at rest: each library is in the memory of each of them."""

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.local

ROOT = Path(__file__).parents[3]
HEAVY = {"aiohttp", "aiokafka", "numpy", "opentelemetry", "pandas", "pyarrow", "pyspark", "raydp", "rich"}


@pytest.mark.parametrize(
    "module", ["actors.ray.supervisor_actor", "actors.ray.metadata_actor", "actors.ray.copier_actor", "actors.cli.main"]
)
def test_a_module_of_an_actor_imports_nothing_heavy(module: str) -> None:
    script = f"import sys, ray\nbefore = set(sys.modules)\nimport {module}\nprint(*(set(sys.modules) - before))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, cwd=ROOT, check=True)
    assert HEAVY & set(done.stdout.split()) == set()
