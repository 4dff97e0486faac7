"""A proof in this process on a fake survey: its report, its stored tables, and its Python requirements."""

import sqlite3
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from engine.config.config import load_config
from engine.config.storage import Storage
from engine.jobs.proof import here as proof_here
from engine.jobs.proof import steps as proof_steps
from engine.jobs.proof.model import LaneReport, Progress, ProofOptions, ProofReport, Proven, TooMuch
from engine.jobs.proof.snapshot import ProofScope, ProofSnapshot
from policies.model import FlowName
from tests.unit.engine.config_files import BASE
from tests.unit.engine.jobs.proof.places.test_local import COUNT, LANE, opened

TERMS = ProofOptions(flow=FlowName("A", "B"))
REPORT = LaneReport(
    topic="7",
    partition=0,
    target_topic="A.7",
    source_id="s",
    target_id="t",
    generation=3,
    source_from=0,
    source_to=COUNT,
    proven_from=0,
)
KEY = ("7", 0, "s", "t", 3)


@pytest.fixture
def wanted(monkeypatch: pytest.MonkeyPatch) -> list[Mapping[Any, Proven]]:
    """Both clusters are made up; what was asked to be left out, look by look."""
    asked: list[Mapping[Any, Proven]] = []

    def look(_config: Any, _options: Any, wanted: ProofScope) -> ProofSnapshot:
        asked.append(wanted.proven)
        return ProofSnapshot([LANE], [REPORT], [], began_ms=5, took_s=1.0)

    monkeypatch.setattr(proof_steps, "take_snapshot", look)
    monkeypatch.setattr(proof_here, "logs_of", lambda _config, _flow: opened)
    return asked


def proof(folder: Path, options: ProofOptions = TERMS, *, kept: bool = False) -> proof_here.LocalProof:
    path = folder / "mm2.properties"
    path.write_text(BASE)
    return proof_here.LocalProof(options, load_config(path), Storage.of_folder(folder / "kept") if kept else None)


def test_it_reports_as_spark_does(wanted: list[Mapping[Any, Proven]], tmp_path: Path) -> None:
    told = list[Progress]()
    made = proof(tmp_path)
    assert made.offsets == COUNT
    report = made.run(told.append)
    assert isinstance(report, ProofReport)
    assert (report.whole, report.where, report.cores, report.stored) == (True, "process", 1, "")
    assert [(one.records, one.proven_to) for one in report.lanes] == [(COUNT, COUNT)]
    assert (report.began_ms, report.run.startswith("0000000000005-")) == (5, True)
    assert report.took_s >= 1.0, "with the look"
    assert (told[0].total, told[-1].done) == (COUNT, COUNT)
    assert wanted == [{}]


def test_what_it_found_is_remembered(wanted: list[Mapping[Any, Proven]], tmp_path: Path) -> None:
    report = proof(tmp_path, kept=True).run()
    assert report.stored == f"file:{tmp_path}/kept/tables"
    proof(tmp_path, kept=True)
    proof(tmp_path, ProofOptions(flow=TERMS.flow, again=True), kept=True)
    assert wanted == [{}, {KEY: Proven(0, COUNT)}, {}]


def test_a_proof_that_gives_up_keeps_nothing(wanted: list[Mapping[Any, Proven]], tmp_path: Path) -> None:
    with pytest.raises(TooMuch):
        proof(tmp_path, kept=True).run(most_bytes=1)
    proof(tmp_path, kept=True)
    assert wanted == [{}, {}]


def test_an_old_sqlite_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    assert proof_here.lacks() == ""
    monkeypatch.setattr(sqlite3, "sqlite_version_info", (3, 37, 2))
    assert proof_here.lacks().endswith("and 3.39.0 is needed")
