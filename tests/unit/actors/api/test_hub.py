"""Readers of the stream: snapshot, changes, those who join again, those who are slow, and too many."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest

from actors.api import hub
from actors.api.hub import COMMENT, LASTS_S, MOST_KEPT, MOST_READERS, QUIET_S, StreamHub, StreamReader
from actors.api.view import ApiView
from actors.model.status import EventLine, MirrorStatus
from actors.rest.exchange import HttpRefusal
from engine.base.clock import now_s
from tests.unit.actors.rest.rest_views import view_of
from tests.unit.actors.telemetry.statuses import NOW_MS, flow_status, mirror_status


def event(number: int) -> EventLine:
    return EventLine(at_ms=NOW_MS + number, severity="info", flow="A->B", text=f"event {number}")


class FakeMirror:
    """A mirror that is looked at: its status, and how often it was asked."""

    def __init__(self) -> None:
        self.looks = 0
        self.flow = flow_status()
        self.events: tuple[EventLine, ...] = (event(0),)
        self.phase = "running"
        self.failure: Exception | None = None
        self._view = view_of()
        self.ring = self._view.ring

    def status(self) -> MirrorStatus:
        plain = mirror_status(flows=[self.flow])
        return msgspec.structs.replace(plain, events=self.events, phase=self.phase, at_ms=NOW_MS + 1000 * self.looks)

    async def look(self) -> ApiView:
        self.looks += 1
        if self.failure is not None:
            raise self.failure
        return msgspec.structs.replace(self._view, status=self.status())


@asynccontextmanager
async def running(mirror: FakeMirror) -> AsyncIterator[StreamHub]:
    found = StreamHub(mirror)
    task = asyncio.create_task(found.run())
    try:
        yield found
    finally:
        task.cancel()
        await asyncio.wait([task])


def messages(chunk: bytes) -> list[tuple[str, str, Any]]:
    """Return id, kind and body of each message of a chunk."""
    found = []
    for block in chunk.decode().split("\n\n"):
        lines = dict(line.split(": ", 1) for line in block.splitlines() if not line.startswith(":"))
        if lines:
            found.append((lines.get("id", ""), lines["event"], msgspec.json.decode(lines["data"])))
    return found


def kinds(chunk: bytes) -> list[str]:
    return [kind for _, kind, _ in messages(chunk)]


async def first(reader: StreamReader) -> list[tuple[str, str, Any]]:
    return messages(await reader.next())


async def test_without_readers_the_mirror_is_not_looked_at() -> None:
    mirror = FakeMirror()
    async with running(mirror) as streams:
        await asyncio.sleep(60)
        assert mirror.looks == 0
        with streams.join() as reader:
            await reader.next()
        looks = mirror.looks
        await asyncio.sleep(60)
        assert mirror.looks <= looks + 1


async def test_a_reader_gets_everything_first_and_then_what_changes() -> None:
    mirror = FakeMirror()
    async with running(mirror) as streams:
        with streams.join() as reader:
            (_, kind, page), (_, second, line) = await first(reader)
            assert (kind, second, line["text"]) == ("snapshot", "event", "event 0")
            assert page["flows"][0]["flow"] == "A->B"
            mirror.flow = flow_status(errors=3)
            mirror.events = (event(0), event(1))
            found = {kind: body for _, kind, body in messages(await reader.next())}
            assert found.keys() == {"mirror", "flow", "event"}
            assert found["flow"]["failed"] == 3
            assert found["event"]["text"] == "event 1"


async def test_time_alone_is_no_change_and_a_comment_keeps_the_stream_open() -> None:
    mirror = FakeMirror()
    async with running(mirror) as streams:
        with streams.join() as reader:
            await reader.next()
            began_s = now_s()
            assert await reader.next() == COMMENT
            assert now_s() - began_s == pytest.approx(QUIET_S)
    assert mirror.looks > 10


async def test_many_changes_within_a_second_are_one_message() -> None:
    mirror = FakeMirror()
    async with running(mirror) as streams:
        with streams.join() as reader:
            await reader.next()
            for number in range(50):
                mirror.flow = flow_status(records=1000 + number)
                await asyncio.sleep(0.01)
            assert kinds(await reader.next()) == ["flow"]


async def test_points_of_the_series_are_sent_once() -> None:
    mirror = FakeMirror()
    async with running(mirror) as streams:
        with streams.join() as reader:
            await reader.next()
            mirror.ring.note(mirror.status())
            found = messages(await reader.next())
            points = [body for _, kind, body in found if kind == "point"]
            assert [one["flow"] for one in points] == ["A->B"]
            assert kinds(await reader.next()) == []


async def test_a_reader_that_joins_again_gets_what_it_has_missed() -> None:
    mirror = FakeMirror()
    async with running(mirror) as streams:
        with streams.join() as reader:
            *_, (last_id, _, _) = await first(reader)
        await asyncio.sleep(30)  # nobody reads, nobody looks
        mirror.events = (event(0), event(1), event(2))
        with streams.join(last_id) as reader:
            found = messages(await reader.next())
            assert [body["text"] for _, kind, body in found if kind == "event"] == ["event 1", "event 2"]
            assert "snapshot" not in [kind for _, kind, _ in found]
            last_id = found[-1][0]
        mirror.events = (*mirror.events, event(3))
        with streams.join(last_id) as reader:
            assert [body["text"] for _, _, body in await first(reader)] == ["event 3"]


@pytest.mark.parametrize("last_id", ["", "another-7", "x"])
async def test_a_reader_with_an_unknown_id_begins_with_everything(last_id: str) -> None:
    async with running(FakeMirror()) as streams:
        with streams.join(last_id) as reader:
            assert kinds(await reader.next())[0] == "snapshot"


async def test_a_reader_that_was_away_for_too_long_begins_with_everything() -> None:
    mirror = FakeMirror()
    async with running(mirror) as streams:
        with streams.join() as reader:
            *_, (last_id, _, _) = await first(reader)
            mirror.events = tuple(event(number) for number in range(MOST_KEPT + 2))
            assert len(messages(await reader.next())) >= MOST_KEPT
        with streams.join(last_id) as reader:
            assert kinds(await reader.next())[0] == "snapshot"


async def test_a_reader_that_reads_too_slowly_is_dropped_and_the_others_are_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(hub, "MOST_WAITING", 20)
    mirror = FakeMirror()
    async with running(mirror) as streams:
        with streams.join() as slow, streams.join() as quick:
            await quick.next()
            for number in range(30):
                mirror.flow = flow_status(records=1000 + number)
                assert kinds(await quick.next()) == ["flow"]
            assert slow.is_dropped
            assert await slow.next() == b"", "what waited is given up, so that it costs no memory"
            assert not quick.is_dropped


async def test_there_are_not_more_streams_than_allowed() -> None:
    streams = StreamHub(FakeMirror())
    joined = [streams.join() for _ in range(MOST_READERS)]
    for one in joined:
        one.__enter__()
    with pytest.raises(HttpRefusal) as refused, streams.join():
        pass
    assert refused.value.status == 429
    joined[0].__exit__(None, None, None)
    with streams.join():
        assert streams.readers == MOST_READERS
    for one in joined[1:]:
        one.__exit__(None, None, None)


async def test_streams_end_with_the_server_and_say_whether_to_come_again() -> None:
    mirror = FakeMirror()
    async with running(mirror) as streams:
        with streams.join() as reader:
            await reader.next()
            streams.end("the server ends")
            assert messages(await reader.next()) == [("", "end", {"why": "the server ends", "again": True})]
            assert await reader.next() == b""
        mirror.phase = "stopped"
        with streams.join() as reader:
            await reader.next()
            streams.end("the server ends")
            assert messages(await reader.next())[-1][2]["again"] is False


async def test_a_stream_ends_after_an_hour_so_that_its_reader_shows_again_who_it_is() -> None:
    async with running(FakeMirror()) as streams:
        with streams.join() as reader:
            began_s, last = now_s(), b""
            while chunk := await reader.next():
                last = chunk
            assert messages(last)[-1][2] == {"why": "the stream has lasted long", "again": True}
            assert now_s() - began_s == pytest.approx(LASTS_S, abs=QUIET_S)


async def test_a_mirror_that_does_not_answer_ends_the_streams_but_not_the_hub() -> None:
    mirror = FakeMirror()
    mirror.failure = RuntimeError("no step")
    async with running(mirror) as streams:
        with streams.join() as reader:
            assert messages(await reader.next()) == [("", "end", {"why": "the mirror does not answer", "again": True})]
        mirror.failure = None
        with streams.join() as reader:
            assert kinds(await reader.next())[0] == "snapshot"


async def test_a_reload_that_changes_the_flows_sends_everything_again() -> None:
    mirror = FakeMirror()
    async with running(mirror) as streams:
        with streams.join() as reader:
            await reader.next()
            mirror.flow, mirror.events = flow_status("A->C"), (event(0), event(1))
            found = messages(await reader.next())
            assert [kind for _, kind, _ in found] == ["snapshot", "event", "event"], "a page begins again with it"
            assert [body["text"] for _, _, body in found[1:]] == ["event 0", "event 1"]


async def test_a_reader_that_was_cut_off_within_the_snapshot_misses_no_event() -> None:
    mirror = FakeMirror()
    mirror.events = (event(0), event(1), event(2))
    async with running(mirror) as streams:
        with streams.join() as reader:
            *parts, (last_id, _, _) = await first(reader)
        assert [message_id for message_id, _, _ in parts] == [""] * 3, "a reader does not go on from within"
        with streams.join(last_id) as reader:
            assert await first(reader) == []
