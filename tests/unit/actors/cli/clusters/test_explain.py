"""`check --explain KEY`: lines for a terminal, an object for scripts, no password in either."""

import json
from pathlib import Path

import pytest

from actors.cli import main

TEXT = """\
clusters = A, B
A.bootstrap.servers = a:1
B.bootstrap.servers = b:1
A->B.enabled = true
A->B.topics = orders.*
A.security.protocol = SASL_SSL
A.sasl.jaas.config = org.apache.kafka.common.security.plain.PlainLoginModule required username="u" password="geheim";
"""


@pytest.fixture
def path(tmp_path: Path) -> str:
    made = tmp_path / "mm2.properties"
    made.write_text(TEXT)
    return str(made)


def test_a_key_is_explained_with_the_line_that_sets_it(path: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main(["check", path, "--explain", "topics"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "topics: read, not quite as in MM2"
    assert lines[-3:] == [
        "  Set as, the first one wins: A->B.topics, topics",
        "  Default: .*",
        "  A->B: orders.* (line 5: A->B.topics)",
    ]
    assert max(map(len, lines)) <= 80


def test_a_default_and_a_link(path: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main(["check", "--explain", "raymirror.priority", path]) == 0
    out = capsys.readouterr().out
    assert "(rules: engine/CONFIG.md#bandwidth-and-priority)" in out.replace("\n ", "").replace("  ", " ")
    assert "](" not in out
    assert "A->B: normal (default)" in out


def test_a_key_that_nobody_knows_is_bad_input(path: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main(["check", path, "--explain", "topcis"]) == 2
    assert "Did you mean topics?" in capsys.readouterr().out


@pytest.mark.parametrize("json_wanted", [False, True])
def test_a_password_is_hidden(path: str, json_wanted: bool, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main(["check", path, "--explain", "sasl.jaas.config", *["--json"] * json_wanted]) == 0
    out = capsys.readouterr().out
    assert "geheim" not in out
    assert "(hidden)" in out


@pytest.mark.parametrize("json_wanted", [False, True])
def test_a_password_in_an_address_is_hidden(path: str, json_wanted: bool, capsys: pytest.CaptureFixture[str]) -> None:
    with Path(path).open("a") as file:
        file.write("A.sasl.oauthbearer.token.endpoint.url = https://me:geheim@issuer.example/token\n")
    key = "A.sasl.oauthbearer.token.endpoint.url"
    assert main.main(["check", path, "--explain", key, *["--json"] * json_wanted]) == 0
    out = capsys.readouterr().out
    assert "geheim" not in out
    assert "(hidden)" in out


def test_a_password_that_a_backslash_joined_to_a_value_is_hidden(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "mm2.properties"
    path.write_text(TEXT.replace("= SASL_SSL\n", "= SASL_SSL\\\n"))
    assert main.main(["check", str(path), "--explain", "security.protocol"]) == 0
    out = capsys.readouterr().out
    assert "geheim" not in out
    assert "A: (hidden)" in out


def test_a_file_with_one_cluster_explains_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "mm2.properties"
    path.write_text("clusters = A\nA.bootstrap.servers = a:1\nfoo = 1\n")
    assert main.main(["check", str(path), "--explain", "foo"]) == 2
    assert "names one cluster only; list the clusters on both sides" in capsys.readouterr().err


def test_two_different_passwords_are_not_the_same(path: str, capsys: pytest.CaptureFixture[str]) -> None:
    with Path(path).open("a") as file:
        file.write('A.consumer.sasl.jaas.config = x.PlainLoginModule required username="u" password="hidden";\n')
    assert main.main(["check", path, "--explain", "A.consumer.sasl.jaas.config"]) == 0
    said = capsys.readouterr().out
    assert "A->B, consumer: (hidden) (line 8: A.consumer.sasl.jaas.config)" in said
    assert '"hidden"' not in said


def test_scripts_get_one_object(path: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main(["check", path, "--explain", "topics", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["explains"]
    assert found["values"] == [{"of": "A->B", "value": "orders.*", "key": "A->B.topics", "line": 5}]


def test_a_file_that_cannot_be_read_is_bad_input(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main(["check", str(tmp_path / "none"), "--explain", "topics"]) == 2
    assert "give a readable file" in capsys.readouterr().err
