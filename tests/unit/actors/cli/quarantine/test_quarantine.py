"""The output and exit codes of `raymirror quarantine`."""

import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from actors.cli.common import exits
from actors.cli.main import main
from actors.cli.quarantine import quarantine
from engine.core.refused.entries import RefusedMark, RefusedState
from engine.services.quarantine import RefusedRow, RefusedStanding, ReplayResult
from engine.wire.record import Record
from tests.unit.engine.core.refused.test_entries import FACTS

S = RefusedStanding
HEADERS = ((b"h", None), (b"g", b"\x01"))


def row(offset: int, standing: RefusedStanding, mark: RefusedMark | None = None) -> RefusedRow:
    facts = msgspec.structs.replace(FACTS, offset=offset, contents_at=-1 if standing is S.SKIPPED else 5)
    return RefusedRow(standing=standing, state=RefusedState(record=facts, mark=mark))


DONE = RefusedMark(did="replayed", at_ms=5, target_topic="A.orders", target_offset=400)
ROWS = [row(4, S.HELD), row(5, S.SKIPPED), row(6, S.REPLAYED, DONE), row(7, S.HELD)]


class Fake:
    """The quarantine of a flow that answers from lists."""

    def __init__(self) -> None:
        self.refused: frozenset[int] = frozenset()
        self.dropped: list[int] = []

    async def rows(self) -> list[RefusedRow]:
        return ROWS

    async def contents(self, one: RefusedRow) -> Record | None:
        held = one.standing is not S.SKIPPED
        return Record(one.name.offset, 1_000, None, b"caf\xc3\xa9", HEADERS) if held else None

    async def replay(
        self, wanted: Callable[[RefusedRow], bool], tell: Callable[[ReplayResult], None], *, unsure: bool
    ) -> list[ReplayResult]:
        del unsure
        found = []
        for one in ROWS:
            if wanted(one) and one.standing is S.HELD:
                bad = one.name.offset in self.refused
                found.append(
                    ReplayResult(name=one.name, target_offset=-1 if bad else 900, why_not="no key" if bad else "")
                )
                tell(found[-1])
        return found

    async def drop(self, wanted: Callable[[RefusedRow], bool], tell: Callable[[RefusedRow], None]) -> list[RefusedRow]:
        for one in ROWS:
            if wanted(one) and one.is_open:
                self.dropped.append(one.name.offset)
                tell(one)
        return [one for one in ROWS if wanted(one) and not one.is_open]


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> Fake:
    found = Fake()

    @asynccontextmanager
    async def quarantine_of(_config: object, _flow: object) -> AsyncIterator[Any]:
        yield found

    monkeypatch.setattr(quarantine, "quarantine_of", quarantine_of)
    return found


@pytest.fixture
def config(tmp_path: Path) -> str:
    path = tmp_path / "mm2.properties"
    path.write_text("clusters = A, B\nA.bootstrap.servers = a:1\nB.bootstrap.servers = b:1\nA->B.enabled = true\n")
    return str(path)


@pytest.mark.usefixtures("fake")
def test_list_shows_what_is_not_done_with(config: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["quarantine", "list", config]) == exits.OK
    out = capsys.readouterr().out
    assert out.startswith("A->B: 3 refused records: 2 held, 1 skipped\n")
    assert "orders-3@4" in out
    assert "orders-3@6" not in out
    assert main(["quarantine", "list", config, "--all", "--record", "orders-3@6"]) == exits.OK
    out = capsys.readouterr().out
    assert "A.orders-3@400" in out
    assert "orders-3@4 " not in out
    assert main(["quarantine", "list", config, "--topic", "other"]) == exits.OK
    assert capsys.readouterr().out == "A->B: no refused records\n"


@pytest.mark.usefixtures("fake")
def test_list_as_json_has_every_fact(config: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["quarantine", "list", config, "--json", "--all"]) == exits.OK
    (flow,) = json.loads(capsys.readouterr().out)["flows"]
    assert [one["state"] for one in flow["records"]] == ["held", "skipped", "replayed", "held"]
    assert flow["records"][2]["target_offset"] == 400
    assert flow["records"][0]["error_code"] == 87


@pytest.mark.usefixtures("fake")
def test_show_prints_the_contents(config: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["quarantine", "show", config, "--record", "orders-3@4", "--record", "orders-3@5"]) == exits.OK
    out = capsys.readouterr().out
    for line in ("key:        null", "value:      café", "header:     h = null", "header:     g = '\\x01'", "not held"):
        assert line in out
    assert main(["quarantine", "show", config, "--record", "orders-3@4", "--json"]) == exits.OK
    (one,) = json.loads(capsys.readouterr().out)["records"]
    assert one["contents"]["key"] is None
    assert one["contents"]["headers"][1] == {"name": {"text": "g"}, "value": {"text": "\x01"}}


def test_replay_says_where_each_record_is(config: str, fake: Fake, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["quarantine", "replay", config, "--all"]) == exits.OK
    out = capsys.readouterr().out
    assert "orders-3@4: replayed to target offset 900\n" in out
    assert out.endswith("A->B: 2 records replayed; not tried: 1 skipped, 1 replayed\n")
    fake.refused = frozenset({7})
    assert main(["quarantine", "replay", config, "--topic", "orders"]) == exits.FAILED
    assert "orders-3@7: not replayed: no key\n" in capsys.readouterr().out
    assert main(["quarantine", "replay", config, "--topic", "orders", "--json"]) == exits.FAILED
    said = json.loads(capsys.readouterr().out)
    assert (said["replayed"], [one["why_not"] for one in said["results"]]) == (1, ["", "no key"])


@pytest.mark.usefixtures("fake")
def test_a_replay_of_nothing_is_done(config: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["quarantine", "replay", config, "--record", "orders-3@5"]) == exits.OK
    assert capsys.readouterr().out == "A->B: 0 records replayed; not tried: 1 skipped\n"


def test_what_was_replayed_and_dropped_is_in_the_audit_trail(
    config: str, fake: Fake, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with Path(config).open("a") as file:
        file.write(f"raymirror.storage = file:{tmp_path}/storage\n")
    fake.refused = frozenset({7})
    assert main(["quarantine", "replay", config, "--all"]) == exits.FAILED
    assert main(["quarantine", "drop", config, "--record", "orders-3@5"]) == exits.OK
    capsys.readouterr()
    assert main(["audit", config, "--json"]) == exits.OK
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [
        (one["change"], one["name"], one["target"], one["after"], one["outcome"], one["detail"]) for one in rows
    ] == [
        ("replay_record", "orders-3@4", "A.orders", "offset 900", "done", ""),
        ("replay_record", "orders-3@7", "A.orders", "", "failed", "no key"),
        ("drop_record", "orders-3@5", "A.orders", "", "done", ""),
    ]
    assert rows[0]["who"].endswith(", raymirror quarantine")


@pytest.mark.usefixtures("fake")
def test_an_audit_trail_that_cannot_be_written_is_told(
    config: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "storage").write_text("no folder")
    with Path(config).open("a") as file:
        file.write(f"raymirror.storage = file:{tmp_path}/storage\n")
    assert main(["quarantine", "drop", config, "--record", "orders-3@5"]) == exits.FAILED
    printed = capsys.readouterr()
    assert "1 record dropped" in printed.out
    assert "raymirror quarantine: done, but: audit trail at" in printed.err


def test_drop_takes_what_is_named(config: str, fake: Fake, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["quarantine", "drop", config, "--record", "orders-3@5"]) == exits.OK
    assert capsys.readouterr().out == "A->B: 1 record dropped\n"
    assert main(["quarantine", "drop", config, "--all", "--json"]) == exits.OK
    said = json.loads(capsys.readouterr().out)
    assert (said["dropped"], said["left"]) == (["orders-3@4", "orders-3@5", "orders-3@7"], {"replayed": 1})
    assert fake.dropped == [5, 4, 5, 7]


def test_a_replayed_record_stays_replayed(config: str, fake: Fake, capsys: pytest.CaptureFixture[str]) -> None:
    """A proof finds its copy by the mark, which `dropped` would replace."""
    assert main(["quarantine", "drop", config, "--record", "orders-3@6"]) == exits.OK
    assert capsys.readouterr().out == "A->B: 0 records dropped; left: 1 replayed\n"
    assert fake.dropped == []


@pytest.mark.usefixtures("fake")
@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["replay"], "name records with --record, topics with --topic or --all"),
        (["drop"], "name records with --record, topics with --topic or --all"),
        (["show"], "name records with --record, topics with --topic"),
        (["show", "--record", "orders"], "write TOPIC-PARTITION@OFFSET"),
        (["show", "--record", "orders-3@8"], "no refused record is known of orders-3@8"),
        (["replay", "--record", "orders-3@8"], "no refused record is known of orders-3@8"),
        (["replay", "--topic", "other"], "no refused record is known of other"),
        (["drop", "--topic", "other"], "no refused record is known of other"),
        (["list", "--flow", "B->A"], "there is no flow 'B->A'"),
    ],
)
def test_what_is_asked_wrongly(config: str, words: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["quarantine", words[0], config, *words[1:]]) == exits.UNUSABLE
    assert said in capsys.readouterr().err


@pytest.mark.usefixtures("fake")
def test_of_several_flows_one_must_be_chosen(config: str, capsys: pytest.CaptureFixture[str]) -> None:
    with Path(config).open("a") as file:
        file.write("B->A.enabled = true\n")
    assert main(["quarantine", "drop", config, "--all"]) == exits.UNUSABLE
    assert "choose one: --flow" in capsys.readouterr().err
