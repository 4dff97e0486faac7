"""The fingerprint of a copier changes with settings and code, not with the process that asks."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from actors.model.fingerprint import fingerprint_of
from engine.config.config import load_config

BASE = "clusters = A, B\nA.bootstrap.servers = a:1\nB.bootstrap.servers = b:1\nA->B.enabled = true\n"
ASK = (
    "import sys; from pathlib import Path; "
    "from actors.model.fingerprint import fingerprint_of; from engine.config.config import load_config;"
    "config = load_config(Path(sys.argv[1])); print(fingerprint_of('1', config, config.flows[0]))"
)


def fingerprint(folder: Path, extra: str = "", version: str = "1") -> str:
    path = folder / "mm2.properties"
    path.write_text(BASE + extra)
    config = load_config(path)
    return fingerprint_of(version, config, config.flows[0])


@pytest.mark.local
def test_every_process_finds_the_same(tmp_path: Path) -> None:
    here = fingerprint(tmp_path, "A->B.raymirror.start = orders.*@latest\nA.sasl.mechanism = PLAIN\n")
    path = str(tmp_path / "mm2.properties")
    for seed in ("1", "2"):
        env = {**os.environ, "PYTHONHASHSEED": seed}
        there = subprocess.run([sys.executable, "-c", ASK, path], env=env, capture_output=True, text=True, check=True)
        assert there.stdout.strip() == here


@pytest.mark.parametrize(
    "extra",
    [
        "topics = x\n",
        "topics.exclude = y\n",
        "tasks.max = 4\n",
        "refresh.topics.interval.seconds = 9\n",
        "\nreplication.factor = 2\n",
    ],
)
def test_what_copiers_do_not_read_does_not_replace_them(tmp_path: Path, extra: str) -> None:
    assert fingerprint(tmp_path, extra) == fingerprint(tmp_path)


@pytest.mark.parametrize(
    "extra",
    [
        "A.consumer.isolation.level = read_uncommitted\n",
        "A.consumer.fetch.max.bytes = 65536\n",
        "B.security.protocol = SSL\n",
    ],
)
def test_what_copiers_read_replaces_them(tmp_path: Path, extra: str) -> None:
    assert fingerprint(tmp_path, extra) != fingerprint(tmp_path)


def test_another_version_replaces_them(tmp_path: Path) -> None:
    assert fingerprint(tmp_path, version="2") != fingerprint(tmp_path)


def test_the_way_back_added_does_not_replace_the_copiers_of_the_first_way(tmp_path: Path) -> None:
    assert fingerprint(tmp_path, "B->A.enabled = true\n") == fingerprint(tmp_path)
