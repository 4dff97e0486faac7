"""What install.sh leaves out and refuses; tests/integration/test_image_script.py runs all of it."""

import re
import subprocess
import sys
import tomllib
from importlib.metadata import requires
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from deploy.local import jars

pytestmark = pytest.mark.local

CLONE = Path(__file__).parents[4]
SCRIPT = CLONE / "deploy" / "image" / "install.sh"


def needed(lines: list[str]) -> set[str]:
    """Follow requirements through the metadata of what is installed; give the names of all packages met."""
    names: set[str] = set()
    met: set[tuple[str, str]] = set()
    waiting = [(line, "") for line in lines]
    while waiting:
        line, extra = waiting.pop()
        requirement = Requirement(line)
        name = canonicalize_name(requirement.name)
        if requirement.marker is not None and not requirement.marker.evaluate({"extra": extra}):
            continue
        names.add(name)
        for wanted in ("", *requirement.extras):
            if (name, wanted) not in met:
                met.add((name, wanted))
                waiting += [(further, wanted) for further in requires(name) or []]
    return names


def test_the_packages_left_out_are_those_that_only_tests_and_linters_need() -> None:
    locked = re.findall(r"^([A-Za-z0-9_.-]+)==", (CLONE / "requirements.lock").read_text(), re.MULTILINE)
    project = tomllib.loads((CLONE / "pyproject.toml").read_text())["project"]
    left_out = (CLONE / "deploy" / "image" / "dev-only.txt").read_text().split()
    assert left_out == sorted({canonicalize_name(name) for name in locked} - needed(project["dependencies"]))


def refusal(*words: Path | str, python: str = sys.executable) -> str:
    done = subprocess.run(
        [SCRIPT, *words],
        env={"PYTHON": python, "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 2, done.stdout + done.stderr
    return done.stderr


def test_a_folder_that_is_not_empty_is_refused_and_left_alone(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    assert f"{tmp_path} is not empty" in refusal(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_another_python_is_refused(tmp_path: Path) -> None:
    other = tmp_path / "python"
    other.write_text("#!/bin/sh\necho 3.12\n")
    other.chmod(0o755)
    assert f"{other} is not CPython 3.11" in refusal(tmp_path / "opt", python=str(other))


@pytest.mark.parametrize("words", [(), ("--extra", "x")])
def test_a_call_without_a_folder_is_told_how(words: tuple[str, ...]) -> None:
    assert "usage: install.sh PREFIX" in refusal(*words)


def test_an_extra_lock_that_is_not_there_is_refused(tmp_path: Path) -> None:
    assert "expected --extra and a lock file" in refusal(tmp_path / "opt", "--extra", tmp_path / "no.lock")


def test_an_image_names_its_own_folder_of_jars(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert jars.cache_folder() == tmp_path / "cache" / "raymirror"
    monkeypatch.setenv("RAYMIRROR_CACHE", str(tmp_path / "own"))
    assert jars.cache_folder() == tmp_path / "own"
