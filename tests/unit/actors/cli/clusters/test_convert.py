"""`raymirror convert`: its output, its file, its report and its exit codes."""

import io
import json
import stat
import sys
from pathlib import Path

import pytest

from actors.cli import main
from actors.cli.common import exits
from engine.config.config import load_config

CONNECTOR = {
    "connector.class": "org.apache.kafka.connect.mirror.MirrorSourceConnector",
    "name": "from-a",
    "source.cluster.alias": "a",
    "target.cluster.alias": "b",
    "source.cluster.bootstrap.servers": "a:9092",
    "target.cluster.bootstrap.servers": "b:9092",
    "target.cluster.security.protocol": "SASL_PLAINTEXT",
    "target.cluster.sasl.mechanism": "PLAIN",
    "target.cluster.sasl.jaas.config": (
        "org.apache.kafka.common.security.plain.PlainLoginModule required username=u password=PLANTED;"
    ),
    "topics": "orders",
}
WORKER = "bootstrap.servers=b:9092\ngroup.id=connect\noffset.storage.topic=connect-offsets\n"


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    """A connector and its workers, of which everything can be carried."""
    connector, worker = tmp_path / "a.json", tmp_path / "worker.properties"
    connector.write_text(json.dumps(CONNECTOR))
    worker.write_text(WORKER)
    return [str(connector), str(worker)]


def test_the_new_file_is_printed_without_its_secrets(files: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main(["convert", *files]) == exits.OK
    said = capsys.readouterr()
    assert said.out.startswith("# Made by `raymirror convert` from connectors of Kafka Connect:")
    assert "sasl.jaas.config: '${file:/etc/raymirror/secrets/b.properties:sasl.jaas.config}'" in said.out
    assert "PLANTED" not in said.out + said.err
    assert said.err.startswith("connectors of Kafka Connect: 12 settings, 3 of them changed; nothing is lost")


def test_a_file_is_written_for_its_owner_only(
    files: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "mirror.yaml"
    assert main.main(["convert", *files, "-o", str(out)]) == exits.OK
    assert stat.S_IMODE(out.stat().st_mode) == 0o600
    assert "password=PLANTED" in out.read_text()
    assert load_config(out).clusters["b"].security["sasl.mechanism"] == "PLAIN"
    said = capsys.readouterr()
    assert said.err == ""
    assert said.out.splitlines() == [
        f"{out} contains passwords of the input; only its owner may read it",
        f"{out}: connectors of Kafka Connect: 12 settings, 3 of them changed; nothing is lost",
    ]


def test_what_could_not_be_carried_is_said_and_has_an_exit_code_of_its_own(
    files: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "mirror.yaml"
    assert main.main(["convert", files[0], "-o", str(out)]) == exits.NOT_WHOLE == 6
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith(f"not carried: {files[0]}:1: the topic with the positions of the connector")
    assert lines[-1].endswith("NOT CARRIED: 1, each named with its reason")
    assert "# NOT CARRIED: " in out.read_text()
    assert main.main(["convert", files[0]]) == exits.NOT_WHOLE


def test_a_file_that_is_there_stays(files: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "mirror.yaml"
    out.write_text("mine")
    out.chmod(0o644)
    assert main.main(["convert", *files, "-o", str(out)]) == exits.UNUSABLE
    assert out.read_text() == "mine"
    assert capsys.readouterr().err == (
        f"raymirror convert: {out} is there already; give another name, or --force to overwrite it\n"
    )
    assert main.main(["convert", *files, "-o", str(out), "--force"]) == exits.OK
    assert stat.S_IMODE(out.stat().st_mode) == 0o600
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


def test_a_report_as_json(files: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main(["convert", files[0], "--json"]) == exits.NOT_WHOLE
    said = capsys.readouterr().out
    assert "PLANTED" not in said
    report = json.loads(said)
    assert report["whole"] is False
    assert report["output"] is None
    assert {"from": f"{files[0]}:1: topics", "key": "a->b.topics"} in report["carried"]
    assert [one["key"] for one in report["changed"]] == [
        "a->b.emit.checkpoints.enabled",
        "emit.heartbeats.enabled",
        "a->b.raymirror.connector.name",
    ]
    assert [one["from"] for one in report["not_carried"]] == [f"{files[0]}:1"]
    assert report["secrets"] == ["b.sasl.jaas.config"]
    assert report["text"].startswith("# Made by")
    out = tmp_path / "m.yaml"
    assert main.main(["convert", *files, "--json", "-o", str(out)]) == exits.OK
    report = json.loads(capsys.readouterr().out)
    assert (report["whole"], report["output"], report["text"]) == (True, str(out), None)
    assert {"from": f"{files[1]}:2: group.id", "key": "b.group.id"} in report["carried"]
    assert report["not_carried"] == []


def test_the_command_line_of_mirrormaker_1(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    consumer, producer = tmp_path / "c", tmp_path / "p"
    consumer.write_text("bootstrap.servers=old:9092\n")
    producer.write_text("bootstrap.servers=new:9092\n")
    words = ["--consumer.config", str(consumer), "--producer.config", str(producer), "--whitelist", "a|b"]
    words += ["--new.consumer", "--abort.on.send.failure", "true", "--offset.commit.interval.ms", "60000"]
    assert main.main(["convert", *words, "--num.streams", "3", "--source-alias", "old"]) == exits.OK
    said = capsys.readouterr().out
    assert "# - --offset.commit.interval.ms: raymirror writes positions as offset.flush.interval.ms says" in said
    assert "topics: 'a|b'" in said
    assert "tasks.max: 3" in said
    assert "old->target:" in said


def test_standard_input(files: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    class Piped:
        buffer = io.BytesIO(Path(files[0]).read_bytes())

    monkeypatch.setattr(sys, "stdin", Piped())
    assert main.main(["convert", "-", files[1], "--secrets", "/run/keys/"]) == exits.OK
    said = capsys.readouterr().out
    assert "standard input" in said
    assert "${file:/run/keys/b.properties:sasl.jaas.config}" in said


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ([], "no file is named; give the files of the other tool: raymirror convert FILE..."),
        (["none.json"], "none.json: file: cannot be read: No such file or directory; give a readable file"),
        (["FILE", "-o", "mirror.properties"], "mirror.properties would be read as mm2.properties; give the new file a"),
        (["FILE", "-o", "no/such/folder/m.yaml"], "no/such/folder/m.yaml cannot be written: No such file or directory"),
        (["FILE", "-o", "no/such/folder/m.yaml", "--force"], "no/such/folder/m.yaml cannot be written: No such file"),
        (["FILE", "--whitelist", "x"], "command line: --whitelist: it does not belong to connectors of Kafka Connect"),
    ],
)
def test_bad_input(words: list[str], says: str, files: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main(["convert", *(files[0] if word == "FILE" else word for word in words)]) == exits.UNUSABLE
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith(f"raymirror convert: {says}")
    assert said.err.count("\n") == 1
