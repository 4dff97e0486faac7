"""The payloads of `drain` and `tiny`, and what systems are told about TLS."""

import random
from pathlib import Path

import pytest

from bench import drain
from bench.dataset import LZ4, Backlog, Payload, write_payload_file
from bench.errors import BenchError
from bench.latency import command as latency
from bench.systems import aiokafka_copy
from bench.systems.launch import Job, Tls, write_properties
from bench.tiny import command as tiny

ALL = [*drain.PAYLOADS.values(), *tiny.PAYLOADS.values()]


@pytest.mark.parametrize("payload", ALL, ids=lambda payload: payload.name)
def test_every_line_of_a_payload_has_its_size_and_can_be_written_as_a_line(payload: Payload) -> None:
    rng = random.Random(payload.lines.seed)
    for _ in range(50):
        line = payload.lines.make(rng)
        assert len(line.encode()) == payload.lines.record_bytes
        assert "\n" not in line


def test_payloads_of_one_kind_have_the_same_lines(tmp_path: Path) -> None:
    files = [write_payload_file(drain.PAYLOADS[name], tmp_path) for name in ("lz4", "zstd", "lz4-4k")]
    assert len({file.read_bytes() for file in files}) == 1


def test_the_constant_payload_is_one_record(tmp_path: Path) -> None:
    text = write_payload_file(drain.PAYLOADS["constant"], tmp_path).read_text()
    assert text.startswith("REDPANDA_REDPANDA_")
    assert len(text) == 1001


def test_extra_payloads_run_only_if_they_are_chosen() -> None:
    assert drain.chosen_payloads("all") == list(drain.PAYLOADS)
    assert drain.chosen_payloads("gzip,constant") == ["gzip", "constant"]
    with pytest.raises(BenchError, match="no payload bzip2"):
        drain.chosen_payloads("bzip2")


def test_logical_bytes_count_the_size_of_the_payloads_own_records() -> None:
    backlog = Backlog(payload="p", codec="none", topic="t", counts=(3, 4), batches=1, wire_bytes=9, record_bytes=100)
    assert backlog.logical_bytes == 700
    assert Backlog.short("t", 1, 2).logical_bytes == 2 * LZ4.lines.record_bytes


@pytest.fixture
def job(tmp_path: Path) -> Job:
    backlog = Backlog.short("t")
    tls = Tls(source="h:1", target="h:2", authority=tmp_path / "authority.pem", chain=tmp_path / "chain.pem")
    return Job(backlog=backlog, source="h:8", target="h:9", alias="x", folder=tmp_path, tls=tls)


def test_mirrors_get_the_listeners_with_tls(job: Job) -> None:
    lines = write_properties(job, {}).read_text().splitlines()
    for alias, address in (("x", "h:1"), ("target", "h:2")):
        assert f"{alias}.bootstrap.servers = {address}" in lines
        assert f"{alias}.security.protocol = SSL" in lines
        assert f"{alias}.ssl.truststore.location = {job.folder / 'authority.pem'}" in lines


def test_the_aiokafka_copy_gets_the_listeners_with_tls(job: Job) -> None:
    command = aiokafka_copy.launch(job).command
    assert command[-6:] == ("h:1", "h:2", "t", "x.t", "none", str(job.folder / "authority.pem"))


def test_pure_python_and_batches_as_they_are_can_be_asked_for(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    assert tiny.LAUNCHES["raymirror-pure"](job).environment["RAYMIRROR_NATIVE"] == "off"
    monkeypatch.setattr(latency, "pick_ports", lambda _: [4321])
    pure, port = latency.launched("raymirror-pure", job)
    assert (pure.environment["RAYMIRROR_NATIVE"], port) == ("off", 4321)
    assert "raymirror.metrics.port = 4321" in (job.folder / "mm2.properties").read_text()
    tiny.LAUNCHES["raymirror-rebatch-off"](job)
    assert "raymirror.rebatch = off" in (job.folder / "mm2.properties").read_text()
