"""The output and exit codes of `raymirror move`."""

import json
from pathlib import Path
from typing import ClassVar, Self

import msgspec
import pytest

from actors.cli.common import exits
from actors.cli.dr import move
from actors.cli.main import main
from engine.services.dr.moving import MovedStanding, MoveOutcome, MoveWish
from policies.dr.moving import MoveRefusal, MoveRefusalName, MovingOffset
from tests.unit.engine.config_files import BASE

ROW = MovingOffset(topic="t", partition=0, source_offset=5, target_topic="A.t", target_offset=7, stored=7)
DONE = MoveOutcome(flow="A->B", group="billing", moved=True, offsets=(ROW,))
REFUSED = MoveOutcome(
    flow="A->B", group="billing", moved=False, refused=(MoveRefusal(MoveRefusalName.COMMITS, "it commits"),)
)
MOVED = MovedStanding(
    group="billing",
    state="moved",
    at_ms=1_700_000_000_000,
    who="me on here",
    partitions=3,
    source_state="inactive",
    target_state="active",
    source_moved=0,
)


class FakeMover:
    """A mover that answers at once."""

    gone: ClassVar[str] = ""
    outcome: ClassVar[MoveOutcome] = DONE
    standing: ClassVar[tuple[MovedStanding, ...]] = ()
    wished: ClassVar[list[MoveWish]] = []
    made: ClassVar[list[tuple[str, bool]]] = []

    def __init__(self, _config: object, _flow: object, group: str, *, who: str = "", backwards: bool = False) -> None:
        FakeMover.made.append((group, backwards))
        assert bool(who) == bool(group)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_error: object) -> None:
        pass

    async def move(self, wish: MoveWish) -> MoveOutcome:
        FakeMover.wished.append(wish)
        return FakeMover.outcome

    async def moved(self) -> tuple[MovedStanding, ...]:
        return FakeMover.standing


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(move, "GroupMover", FakeMover)
    for name, value in {"gone": "", "outcome": DONE, "standing": (), "wished": [], "made": []}.items():
        monkeypatch.setattr(FakeMover, name, value)
    path = tmp_path / "mm2.properties"
    path.write_text(BASE)
    return path


def given(config: Path, *words: str) -> int:
    return main(["move", "--config", str(config), *words])


def test_a_group_that_is_moved_is_told_with_its_offsets(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert given(config, "billing") == exits.OK
    out = capsys.readouterr().out
    assert "group billing is moved: start its consumers on the target" in out
    assert "t-0" in out
    assert FakeMover.made == [("billing", False)]
    assert FakeMover.wished == [MoveWish()]


def test_a_group_that_is_not_moved_is_told_why_by_name(
    config: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(FakeMover, "outcome", REFUSED)
    assert given(config, "billing") == exits.NOT_EQUAL
    assert "group billing is not moved (commits-without-members): it commits" in capsys.readouterr().out
    given(config, "billing", "--json")
    assert json.loads(capsys.readouterr().out)["refused"][0]["name"] == "commits-without-members"


def test_options_are_what_was_asked_for(
    config: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(FakeMover, "outcome", msgspec.structs.replace(DONE, moved=False))
    given(config, "billing", "--dry-run", "--leave-uncopied", "--backwards", "--timeout", "7")
    assert "could be moved now; nothing was changed" in capsys.readouterr().out
    assert FakeMover.wished == [MoveWish(commits=False, leaves_uncopied=True, within_s=7.0)]
    assert FakeMover.made == [("billing", True)]


@pytest.mark.parametrize("words", [(), ("billing", "--list")])
def test_either_a_group_or_the_list(config: Path, capsys: pytest.CaptureFixture[str], words: tuple[str, ...]) -> None:
    assert given(config, *words) == exits.UNUSABLE
    assert "either a group or --list" in capsys.readouterr().err


def test_without_a_source_nothing_is_moved(
    config: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(FakeMover, "gone", "no broker answers")
    assert given(config, "billing") == exits.UNUSABLE
    assert "no broker answers; without the source nothing can be exact" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("changes", "code", "says"),
    [
        ({}, exits.OK, "me on here"),
        ({"source_moved": 2}, exits.NOT_EQUAL, "group billing has consumed 2 partitions on the source since"),
        ({"source_state": "active"}, exits.NOT_EQUAL, "group billing has members on the source since"),
    ],
)
def test_the_list_shows_groups_that_consume_on_the_source_again(
    config: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    changes: dict[str, object],
    code: int,
    says: str,
) -> None:
    monkeypatch.setattr(FakeMover, "standing", (msgspec.structs.replace(MOVED, **changes),))
    assert given(config, "--list") == code
    assert says in capsys.readouterr().out
    assert given(config, "--list", "--json") == code
    assert json.loads(capsys.readouterr().out)[0]["group"] == "billing"


def test_a_flow_from_which_nothing_was_moved(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert given(config, "--list") == exits.OK
    assert "no group was moved" in capsys.readouterr().out
