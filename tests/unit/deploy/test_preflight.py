"""Messages before anything is installed or started."""

import platform
import resource
import sys
from pathlib import Path

import pytest

from deploy import preflight


@pytest.fixture(autouse=True)
def _enough_of_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preflight, "RUN_DISK_GIB", 0)
    monkeypatch.setattr(preflight, "PACKAGES_DISK_GIB", 0)
    monkeypatch.setattr(preflight, "RUN_MEMORY_GIB", 0)
    monkeypatch.setattr(preflight, "SHARED_MEMORY_MIB", 0)
    monkeypatch.setattr(preflight, "OPEN_FILES", 0)


def said(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    code = preflight.main(list(words))
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_a_fit_machine_is_told_the_sizes_first(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = said(capsys, "--venv", str(tmp_path / ".venv"), "--about-to-install")
    assert (code, err) == (0, "")
    assert "570 MiB of Python packages" in out
    assert "60 MiB of Kafka and Spark jars" in out


def test_before_a_run_a_fit_machine_is_told_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    assert said(capsys, "--about-to-run") == (0, "", "")


@pytest.mark.parametrize(
    ("name", "part"),
    [
        ("RUN_DISK_GIB", "GiB of free disk in"),
        ("RUN_MEMORY_GIB", "GiB of free memory for two brokers and Ray"),
        ("SHARED_MEMORY_MIB", "MiB of shared memory in /dev/shm for Ray"),
    ],
)
def test_what_is_too_little_is_named(
    name: str, part: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(preflight, name, 10**9)
    code, out, err = said(capsys, "--about-to-run")
    assert (code, out) == (2, "")
    assert err.startswith("missing: 1000000000")
    assert part in err


def test_a_low_limit_of_open_files_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(preflight, "OPEN_FILES", 4096)
    monkeypatch.setattr(resource, "getrlimit", lambda _: (512, 1024))
    assert said(capsys, "--about-to-run")[2] == "missing: a limit of 4096 open files (ulimit -Hn); it is 1024\n"


def test_another_python_and_another_machine_are_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "version_info", (3, 12, 1))
    monkeypatch.setattr(platform, "machine", lambda: "aarch64")
    code, _, err = said(capsys, "--venv", str(tmp_path), "--about-to-install")
    assert code == 2
    assert "missing: CPython 3.11; this is CPython" in err
    assert "missing: Linux on x86_64; this is Linux on aarch64" in err


def test_a_containers_memory_counts_where_it_is_less(monkeypatch: pytest.MonkeyPatch) -> None:
    numbers = {"/sys/fs/cgroup/memory.max": 3 * preflight.MIB, "/sys/fs/cgroup/memory.current": preflight.MIB}
    monkeypatch.setattr(preflight, "read_number", numbers.get)
    assert preflight.available_memory_bytes() == 2 * preflight.MIB
