"""The archive of classes is written once, by one process, for one Java and its jars."""

import fcntl
from collections.abc import Callable
from pathlib import Path

import pytest

from deploy.local import class_archive

pytestmark = pytest.mark.local


@pytest.fixture
def java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A Java with an archive of its own classes, one jar, and an empty cache."""
    java, jar, cache = tmp_path / "jdk" / "bin" / "java", tmp_path / "a.jar", tmp_path / "cache"
    classes = tmp_path / "jdk" / "lib" / "server" / "classes.jsa"
    for file in (java, jar, classes):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()
    cache.mkdir()
    monkeypatch.setattr(class_archive, "find_java", lambda: java)
    monkeypatch.setattr(class_archive, "kafka_classpath", lambda: str(jar))
    monkeypatch.setattr(class_archive, "cache_folder", lambda: cache)
    class_archive.archive_path.cache_clear()
    return java


def writer(runs: list[list[str]]) -> Callable[[list[str]], None]:
    """Return what stands for a broker: it writes the file that its flags name."""

    def run(flags: list[str]) -> None:
        runs.append(flags)
        Path(flags[0].removeprefix("-XX:ArchiveClassesAtExit=")).write_bytes(b"classes")

    return run


def test_it_is_written_once_and_read_from_then_on(java: Path) -> None:
    runs: list[list[str]] = []
    assert class_archive.reading_flags() == []
    for _ in range(2):
        class_archive.ensure_archive(writer(runs))
    assert len(runs) == 1
    assert class_archive.reading_flags()[0] == f"-XX:SharedArchiveFile={class_archive.archive_path()}"


def test_a_run_that_fails_leaves_none(java: Path) -> None:
    def fail(_flags: list[str]) -> None:
        raise RuntimeError("no port is free")

    with pytest.raises(RuntimeError):
        class_archive.ensure_archive(fail)
    assert class_archive.reading_flags() == []


def test_nobody_waits_for_the_one_that_writes_it(java: Path) -> None:
    runs: list[list[str]] = []
    with class_archive.archive_path().with_suffix(".lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        class_archive.ensure_archive(writer(runs))
    assert runs == []


def test_other_jars_get_their_own(java: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class_archive.ensure_archive(writer([]))
    other = tmp_path / "b.jar"
    other.touch()
    monkeypatch.setattr(class_archive, "kafka_classpath", lambda: str(other))
    class_archive.archive_path.cache_clear()
    assert class_archive.reading_flags() == []


def test_a_java_without_classes_of_its_own_gets_none(java: Path) -> None:
    (java.parent.parent / "lib" / "server" / "classes.jsa").unlink()
    runs: list[list[str]] = []
    class_archive.ensure_archive(writer(runs))
    assert runs == []
