"""The warning about passwords in a file that was submitted with a Ray job."""

from pathlib import Path

import pytest

from actors.config.checks import awaited, shipped_secrets
from actors.config.config_ref import IN_JOB, refer
from engine.base.errors import ClusterAway
from engine.config.config import load_config

BASE = "clusters = A, B\nA.bootstrap.servers = a:1\nB.bootstrap.servers = b:1\nA->B.enabled = true\n"
LOGIN = "A.security.protocol = SASL_PLAINTEXT\nA.sasl.mechanism = PLAIN\n"
JAAS = 'A.sasl.jaas.config = M required username="u" password="{}";\n'


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A job's working directory, with a configuration in it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(IN_JOB, "{}")
    return tmp_path / "mm2.properties"


def said(path: Path, text: str) -> tuple[str, ...]:
    path.write_text(BASE + text)
    return shipped_secrets(path, load_config(path))


def test_a_password_in_clear_is_named_and_not_told(job: Path) -> None:
    found = said(job, LOGIN + JAAS.format("hunter2") + "B.ssl.key.password = hunter2\n")
    assert [warning.split(": ")[0].rpartition("/")[2] for warning in found] == [
        "mm2.properties, line 7",
        "mm2.properties, line 8",
    ]
    assert "A.sasl.jaas.config" in found[0]
    assert "hunter2" not in "".join(found)


def test_a_password_of_one_client_is_named_too(job: Path) -> None:
    found = said(job, LOGIN + JAAS.format("${env:P}") + JAAS.format("hunter2").replace("A.", "A->B.source.consumer."))
    assert len(found) == 1
    assert "line 8: A->B.source.consumer.sasl.jaas.config" in found[0]


def test_placeholders_are_fine(job: Path) -> None:
    assert said(job, LOGIN + JAAS.format("${env:PASSWORD}") + "B.ssl.key.password = ${file:/k:v}\n") == ()


def test_secrets_of_the_http_server_are_named_too(job: Path) -> None:
    users = "raymirror.http.users = eve, ci\nraymirror.http.user.ci.token = ${env:CI}\n"
    (warning,) = said(job, f"{users}raymirror.http.user.eve.password = hunter2\n")
    assert "mm2.properties, line 7: raymirror.http.user.eve.password" in warning
    assert "hunter2" not in warning


def test_a_file_that_stays_where_it_is_is_fine(job: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(IN_JOB)
    assert said(job, LOGIN + JAAS.format("hunter2")) == ()


def test_in_a_job_the_file_is_named_from_the_working_directory(job: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    job.write_text(BASE)
    assert refer(job).path == "mm2.properties"
    monkeypatch.delenv(IN_JOB)
    assert refer(job).path == str(job)


def test_a_cluster_that_is_waited_for_is_named_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "mm2.properties"
    path.write_text(BASE + "B->A.enabled = true\n")
    config = load_config(path)
    absent = ClusterAway(config.clusters["B"].bootstrap_place(), "B", "b:1: refused")
    assert awaited(config, "B", absent) == (
        f"{path}:3: B.bootstrap.servers: no broker of cluster 'B' answers: b:1: refused; A->B and B->A wait for it,"
        " ask again every few seconds, and begin when it answers, unless a failover has stopped the flow"
    )
