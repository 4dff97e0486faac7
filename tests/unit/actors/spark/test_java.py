"""Java for raymirror's own Ray."""

import os
import shutil
from pathlib import Path

import pytest

from actors.spark import java
from deploy.local.errors import ClusterError


def test_the_java_that_was_found_is_what_java_means(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = tmp_path / "bin" / "java"
    found.parent.mkdir()
    found.write_text("#!/bin/sh\n")
    found.chmod(0o755)
    monkeypatch.setattr(java, "find_spark_java", lambda: found)
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    assert java.put_on_path()
    assert shutil.which("java") == str(found)
    before = os.environ["PATH"]
    assert java.put_on_path()
    assert os.environ["PATH"] == before, "once is enough"


def test_without_java_nothing_is_changed_and_it_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    def none() -> Path:
        raise ClusterError("no Java 17 to 21", "no java on PATH")

    monkeypatch.setattr(java, "find_spark_java", none)
    before = os.environ.get("PATH")
    assert not java.put_on_path()
    assert os.environ.get("PATH") == before
