"""Bad input: one clear line, exit code 2, nothing written, no Ray."""

import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from actors.cli.main import main

pytestmark = pytest.mark.local

GOOD = {
    "clusters": "A, B, C",
    "A.bootstrap.servers": "127.0.0.1:1",
    "B.bootstrap.servers": "127.0.0.1:1",
    "C.bootstrap.servers": "127.0.0.1:1",
    "A->B.enabled": "true",
}
IDENTITY = "org.apache.kafka.connect.mirror.IdentityReplicationPolicy"


@pytest.fixture(autouse=True)
def own_state(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)  # whoever imports Ray for this fails


def complain(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """Run a command that must refuse; give its one line (`check` says also which clusters are away: all are)."""
    assert main(words) == 2
    said = capsys.readouterr().err.splitlines()
    if words[0] == "check":
        said = [line for line in said if "no broker of cluster" not in line and not line.endswith(" problems")]
    lines = [line for line in said if not line.startswith("warning:")]
    assert len(lines) == 1, lines
    return lines[0]


def write(folder: Path, **changes: str) -> str:
    path = folder / "mm2.properties"
    settings = {**GOOD, **{key.replace("__", "."): value for key, value in changes.items()}}
    path.write_text("".join(f"{key} = {value}\n" for key, value in settings.items()))
    return str(path)


@pytest.mark.parametrize("command", ["check", "run"])
@pytest.mark.parametrize(
    ("key", "value", "says"),
    [
        ("A->Z.enabled", "true", ("A->Z.enabled", "'Z'", "A, B, C")),
        ("A->B.topics", "orders(", ("A->B.topics", "orders(")),
        ("A.bootstrap.servers", "nonsense", ("A.bootstrap.servers", "nonsense", "host:port")),
    ],
)
def test_a_wrong_key_is_named_with_its_line(
    command: str, key: str, value: str, says: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    line = complain(capsys, command, write(tmp_path, **{key: value}))
    assert "mm2.properties:" in line
    for part in says:
        assert part in line


def test_two_flows_that_name_one_target_topic(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write(
        tmp_path,
        **{"replication.policy.class": IDENTITY, "A->C.enabled": "true", "B->C.enabled": "true"},
        **{"A->C.topics": "orders", "B->C.topics": "orders", "A->B.enabled": "false"},
    )
    line = complain(capsys, "check", path)
    for part in ("A->C", "B->C", "orders"):
        assert part in line


def test_identity_naming_in_a_loop(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write(tmp_path, **{"replication.policy.class": IDENTITY, "B->A.enabled": "true"})
    line = complain(capsys, "check", path)
    assert "replication.policy.class" in line
    assert "loop" in line


@pytest.fixture
def dead() -> Iterator[str]:
    """An address where nobody listens, for as long as the test runs."""
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        yield f"127.0.0.1:{closed.getsockname()[1]}"


REFUSED = "cannot connect: the connection is refused: nothing listens on that port"


def test_a_cluster_that_does_not_answer(dead: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write(tmp_path, A__bootstrap__servers=dead, B__bootstrap__servers=dead)
    assert main(["check", path]) == 2
    assert capsys.readouterr().err.splitlines() == [
        "raymirror check: 2 problems",
        *(
            f"  {path}:{number}: {alias}.bootstrap.servers: no broker of cluster {alias!r} answers: {dead}: {REFUSED}"
            for number, alias in ((2, "A"), (3, "B"))
        ),
    ]


def test_run_starts_where_no_cluster_answers_and_says_which(
    dead: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write(tmp_path, A__bootstrap__servers=dead, B__bootstrap__servers=dead)
    with pytest.raises(ModuleNotFoundError, match="ray"):  # what it does next
        main(["run", path])
    said = capsys.readouterr().err.splitlines()
    for number, alias in ((2, "A"), (3, "B")):
        away = f"{path}:{number}: {alias}.bootstrap.servers: no broker of cluster {alias!r} answers: {dead}: {REFUSED}"
        waits = "A->B waits for it, asks again every few seconds, and begins when it answers"
        assert f"warning: {away}; {waits}, unless a failover has stopped the flow" in said


def test_a_missing_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "absent.properties" in complain(capsys, "check", str(tmp_path / "absent.properties"))


@pytest.mark.parametrize("command", ["status", "pause", "resume", "stop"])
def test_no_mirror_is_one_line_and_exit_code_3(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([command]) == 3
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 1
    assert "no running mirror" in lines[0]


@pytest.mark.parametrize("address", ["127.0.0.1:1", "nowhere"])
def test_an_address_where_nobody_answers_is_no_mirror(address: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["status", "--address", address]) == 3
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 1
    assert address in lines[0]


@pytest.mark.parametrize("change", [{"A->Z.enabled": "true"}, {"A.bootstrap.servers": "nonsense"}])
def test_nothing_is_written(change: dict[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    complain(capsys, "run", write(tmp_path, **change))
    assert [entry.name for entry in tmp_path.iterdir()] == ["mm2.properties"]


def test_hints_are_in_the_words_of_the_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "mirror.yaml"
    path.write_text("clusters:\n  A: {bootstrap.servers: 'a:1'}\n  B: {bootstrap.servers: 'b:1'}\n")
    assert "enable one, e.g. A->B.enabled: true" in complain(capsys, "check", str(path))
    assert "enable one, e.g. A->B.enabled = true" in complain(
        capsys, "check", write(tmp_path, **{"A->B.enabled": "false"})
    )
