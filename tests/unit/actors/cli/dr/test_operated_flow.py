"""The flow of an operation and its reverse, whichever of both a file enables."""

from pathlib import Path

import pytest

from actors.cli.common.questions import BadQuestion
from actors.cli.dr.driving import mirror_named
from actors.cli.dr.mirror_control import how_to_reverse
from actors.cli.dr.operated_flow import fitting, flow_of_file, operated_flow
from actors.cli.dr.switchover import reversed_for, write_reversed
from actors.cli.main import build_parser
from actors.local import session
from engine.config.config import load_config
from policies.model import FlowName

HEAD = "clusters = A, B\nA.bootstrap.servers = a:1\nB.bootstrap.servers = b:1\n"
IDENTITY = "replication.policy.class = IdentityReplicationPolicy\n"
HERE, BACK = FlowName("A", "B"), FlowName("B", "A")


def written(folder: Path, *lines: str) -> Path:
    path = folder / "mm2.properties"
    path.write_text(HEAD + "".join(f"{line}\n" for line in lines))
    return path


def test_a_file_with_both_flows(tmp_path: Path) -> None:
    path = written(tmp_path, "A->B.enabled = true", "B->A.enabled = true", "B->A.topics = back")
    for name, other in ((HERE, BACK), (BACK, HERE)):
        found = flow_of_file(path, str(name))
        assert found is not None
        assert (found.flow.name, found.reverse.flow.name, found.reverse.is_enabled) == (name, other, True)


@pytest.mark.parametrize("is_turned", [False, True])
def test_a_file_with_one_flow_has_both_of_them_by_name(tmp_path: Path, is_turned: bool) -> None:
    path = written(tmp_path, IDENTITY, "A->B.enabled = true", "A->B.topics = orders")
    if is_turned:
        before = flow_of_file(path, "A->B")
        assert before is not None
        path = tmp_path / "turned"
        write_reversed(before, path, reversed_for(before, path))
        assert [flow.name for flow in load_config(path).flows] == [BACK]
    for name, other in ((HERE, BACK), (BACK, HERE)):
        found = flow_of_file(path, str(name))
        assert found is not None
        assert (found.flow.name, found.reverse.flow.name) == (name, other)
        assert found.flow.topics == found.reverse.flow.topics == ("orders",)
        assert [flow.name for flow in found.config.flows] == [name]
        assert [flow.name for flow in found.reverse.config.flows] == [other]


def test_a_reversed_file_replaces_no_other_file(tmp_path: Path) -> None:
    found = flow_of_file(written(tmp_path, "A->B.enabled = true"), "A->B")
    assert found is not None
    with pytest.raises(BadQuestion, match="exists, and has something else; name a new file"):
        reversed_for(found, found.path)
    with pytest.raises(BadQuestion, match="cannot be written: File exists; name a new file"):
        write_reversed(found, found.path, "turned")


def test_a_reversed_file_may_be_written_by_two_calls(tmp_path: Path) -> None:
    found, path = flow_of_file(written(tmp_path, "A->B.enabled = true"), "A->B"), tmp_path / "turned"
    assert found is not None
    for _ in range(2):
        write_reversed(found, path, reversed_for(found, path))
    assert how_to_reverse(found.path, HERE, is_enabled=False, written=path) == f"start its mirror: raymirror run {path}"


def running(path: Path, name: str) -> session.StateFile:
    return session.StateFile(
        address="", namespace=name, pid=1, pid_start=1, version="1", config_path=str(path), config_digest="", local=True
    )


def test_the_file_or_the_flow_decides_which_mirror_is_meant(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "third").mkdir()
    here = running(written(tmp_path, "A->B.enabled = true"), "here")
    back = running(written(tmp_path / "other", "B->A.enabled = true"), "back")
    gone = running(tmp_path / "third" / "gone", "gone")
    states = (gone, back, here)
    assert fitting(states, None, "A->B") == (here,)
    assert fitting((gone, back), None, "A->B") == (back,)  # as after a switchover
    assert fitting(states, Path(back.config_path), "A->B") == (back,)
    assert fitting((gone,), None, "A->B") == fitting((), None, "A->B") == ()
    assert fitting((here, here), None, "A->B") == (here, here)


def test_the_configuration_of_the_mirror_that_has_the_flow_is_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "other").mkdir()
    here = running(written(tmp_path, "A->B.enabled = true"), "here")
    other = running(tmp_path / "other" / "gone", "other")
    monkeypatch.setattr(session, "living", lambda _env, _name: (other, here))
    found = operated_flow(build_parser("dr").parse_args(["dr", "status", "A->B"]))
    assert found.path == Path(here.config_path)
    several = build_parser("dr").parse_args(["dr", "switchover", "A->B"])
    assert mirror_named(several, found).mirror == "here"
    monkeypatch.setattr(session, "living", lambda _env, _name: (other, other))
    with pytest.raises(session.NoMirror):
        mirror_named(several, found)


def test_a_flow_that_the_file_does_not_know(tmp_path: Path) -> None:
    path = written(tmp_path, "A->B.enabled = true")
    args = build_parser("dr").parse_args(["dr", "status", "A->C", "--config", str(path)])
    with pytest.raises(BadQuestion, match="neither 'A->C' nor its reverse is a flow"):
        operated_flow(args)
