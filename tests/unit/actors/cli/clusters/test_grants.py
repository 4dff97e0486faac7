"""`check --grants`: a table, calls of `kafka-acls`, an object for scripts; no cluster is asked, no password shown."""

import json
from pathlib import Path

import pytest

from actors.cli import main

TEXT = """\
clusters = A, B
A.bootstrap.servers = a:1, ::1:2
B.bootstrap.servers = b:1
A->B.enabled = true
A->B.topics = orders.*
A.security.protocol = SASL_SSL
A.sasl.mechanism = PLAIN
A.sasl.jaas.config = org.apache.kafka.common.security.plain.PlainLoginModule required username="u" password="geheim";
B.security.protocol = SSL
"""
TEXT = TEXT.replace(", ::1:2", ", [::1]:2")


@pytest.fixture
def path(tmp_path: Path) -> str:
    made = tmp_path / "mm2.properties"
    made.write_text(TEXT)
    return str(made)


@pytest.mark.parametrize("before", [False, True])
def test_the_table_has_principals_resources_and_needs(
    path: str, before: bool, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "400")
    words = ["check", "--grants", path] if before else ["check", path, "--grants"]
    assert main.main(words) == 0
    out = capsys.readouterr().out
    source, target = [line for line in out.splitlines() if " orders* " in line]
    assert "User:u" in source
    assert "Read, DescribeConfigs" in source
    assert "copying" in source
    assert "the command dr switchover" in target, "producers that move write to a topic of this name there"
    assert "copying" not in target
    assert any("A.orders*" in line and " ? " in line for line in out.splitlines())
    assert "geheim" not in out


def test_the_commands_are_a_script(path: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main(["check", path, "--grant-commands"]) == 0
    out = capsys.readouterr().out
    assert "--bootstrap-server 'a:1,[::1]:2'" in out
    assert '--allow-principal "$PRINCIPAL"' in out
    assert "geheim" not in out
    assert all(line.startswith(("#", "kafka-acls.sh ")) for line in out.splitlines())


def test_json_has_a_row_for_each_grant(path: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main(["check", path, "--grants", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    read = next(one for one in found["grants"] if (one["name"], one["operation"]) == ("orders", "Read"))
    features = read.pop("features")
    assert "copying" in features
    assert "the partitions wait; a topic without Describe is not seen at all" in read.pop("without")
    assert read == {
        "cluster": "A",
        "principal": "User:u",
        "operation": "Read",
        "resource": "topic",
        "name": "orders",
        "pattern": "prefixed",
        "need": "needed",
    }
    assert {one["principal"] for one in found["grants"] if one["cluster"] == "B"} == {""}
