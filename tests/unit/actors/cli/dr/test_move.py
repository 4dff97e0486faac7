"""The output and exit codes of `raymirror move`."""

import json
from pathlib import Path
from typing import ClassVar, Self

import msgspec
import pytest

from actors.cli.common import exits
from actors.cli.dr import move
from actors.cli.main import main
from engine.core.reports.move_progress import MigratingGroup, MoveProgress
from engine.services.dr.moving import MoveOutcome, MoveWish
from policies.dr.move_clients import ClientGap
from policies.dr.moving import MoveRefusal, MoveRefusalName, MovingOffset
from policies.dr.topic_moves import GroupPart, TopicPart, TopicProgress
from tests.unit.engine.config_files import BASE

ROW = MovingOffset(topic="t", partition=0, source_offset=5, target_topic="A.t", target_offset=7, stored=7)
DONE = MoveOutcome(flow="A->B", group="billing", moved=True, offsets=(ROW,))
UNDONE = MoveOutcome(flow="A->B", group="billing", moved=False, offsets=(ROW,), undone=True)
REFUSED = MoveOutcome(
    flow="A->B", group="billing", moved=False, refused=(MoveRefusal(MoveRefusalName.COMMITS, "it commits"),)
)
MOVED = MigratingGroup(
    group="billing",
    part=GroupPart.MOVED,
    kind="classic",
    source_state="inactive",
    target_state="active",
    topics=("orders",),
    at_ms=1_700_000_000_000,
    who="me on here",
)
ORDERS = TopicProgress(topic="orders", target_topic="A.orders", part=TopicPart.PRODUCERS_NEXT, moved=1, left={})


class FakeWorld:
    """The clusters of a flow."""

    def __init__(self, _config: object, _flow: object) -> None:
        pass

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_error: object) -> None:
        pass


class FakeSurvey:
    """A survey that answers at once."""

    found: ClassVar[MoveProgress] = MoveProgress(flow="A->B", topics=(), groups=())
    watched: ClassVar[list[float]] = []

    def __init__(self, _world: object) -> None:
        pass

    async def progress(self, watch_s: float) -> MoveProgress:
        FakeSurvey.watched.append(watch_s)
        return FakeSurvey.found


class FakeMover:
    """A mover that answers at once."""

    gone: ClassVar[str] = ""
    outcome: ClassVar[MoveOutcome] = DONE
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

    async def undo(self) -> MoveOutcome:
        return UNDONE


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(move, "GroupMover", FakeMover)
    for name, value in {"gone": "", "outcome": DONE, "wished": [], "made": []}.items():
        monkeypatch.setattr(FakeMover, name, value)
    monkeypatch.setattr(move, "DrainWorld", FakeWorld)
    monkeypatch.setattr(move, "MoveSurvey", FakeSurvey)
    monkeypatch.setattr(FakeSurvey, "watched", [])
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
    words = ("--leave-uncopied", "--backwards", "--accept-repeats", "--timeout", "7", "--watch", "1")
    given(config, "billing", "--dry-run", *words)
    assert "could be moved now; nothing was changed" in capsys.readouterr().out
    assert FakeMover.wished == [MoveWish(commits=False, leaves_uncopied=True, repeats=True, within_s=7.0, watch_s=1.0)]
    assert FakeMover.made == [("billing", True)]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("billing", "--list"), "only one of GROUP, --topics and --list"),
        (("billing", "--topics", "orders"), "only one of GROUP, --topics and --list"),
        (("--topics", "orders", "--list"), "only one of GROUP, --topics and --list"),
        (("--undo",), "--undo takes the move of one group back"),
        (("billing", "--undo", "--dry-run"), "--undo takes the move of one group back"),
    ],
)
def test_what_does_not_go_together_is_refused(
    config: Path, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], says: str
) -> None:
    assert given(config, *words) == exits.UNUSABLE
    assert says in capsys.readouterr().err


def test_a_move_is_taken_back(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert given(config, "billing", "--undo") == exits.OK
    assert "the move of group billing is taken back: start its consumers on the source" in capsys.readouterr().out


def test_what_a_team_must_do_is_told(
    config: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    streams = msgspec.structs.replace(
        DONE, internal_topics=("billing-s-changelog",), starts=("orders",), advice=("delete STATE_DIR/billing",)
    )
    monkeypatch.setattr(FakeMover, "outcome", streams)
    assert given(config, "billing") == exits.OK
    out = capsys.readouterr().out
    for text in ("billing-s-changelog is copied whole", "it has a start in orders", "delete STATE_DIR/billing"):
        assert text in out


def test_without_a_source_nothing_is_moved(
    config: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(FakeMover, "gone", "no broker answers")
    assert given(config, "billing") == exits.UNUSABLE
    assert "no broker answers; without the source nothing can be exact" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("group", "topic", "code", "says"),
    [
        ({}, {}, exits.OK, "producers of 0 of 1 topic have moved; those of 1 may move"),
        ({"part": GroupPart.BACK, "gone_on": 2}, {}, exits.NOT_EQUAL, "group billing consumes on the source again"),
        ({"part": GroupPart.ACTIVE, "who": "", "at_ms": -1}, {}, exits.OK, "on-source"),
        ({}, {"part": TopicPart.PRODUCERS_MOVED, "at_ms": 1}, exits.OK, "producers of 1 of 1 topic have moved"),
        (
            {},
            {"part": TopicPart.PRODUCERS_MOVED, "at_ms": 1, "written_since": 2},
            exits.NOT_EQUAL,
            "topic orders was written to on the source after its producers had moved",
        ),
    ],
)
@pytest.mark.parametrize("words", [(), ("--list",), ("--status",), ("A->B",)])
def test_the_list_shows_what_has_moved_and_what_is_left(
    config: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    words: tuple[str, ...],
    group: dict[str, object],
    topic: dict[str, object],
    code: int,
    says: str,
) -> None:
    found = MoveProgress(
        flow="A->B",
        topics=(msgspec.structs.replace(ORDERS, **topic),),
        groups=(msgspec.structs.replace(MOVED, **group),),
        failed={"broker 3": "it is down"},
        clients=(ClientGap(name="scram-user-missing", subject="ann", why="set a password"),),
        addresses={"A": "a:9092", "B": "b:9092"},
    )
    monkeypatch.setattr(FakeSurvey, "found", found)
    assert given(config, *words, "--watch", "0.5") == code
    out = capsys.readouterr().out
    assert says in out
    for text in (
        "not known: broker 3: it is down",
        "scram-user-missing: ann: set a password",
        "bootstrap.servers of B: b:9092",
    ):
        assert text in out
    assert given(config, *words, "--json") == code
    answer = json.loads(capsys.readouterr().out)
    assert [one["group"] for one in answer["groups"]] == ["billing"]
    assert [one["topic"] for one in answer["topics"]] == ["orders"]
    assert FakeSurvey.watched == [0.5, 6.0]
