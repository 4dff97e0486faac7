"""A connection whose callers cancel their requests: a cancelled request harms no other."""

import asyncio
import socket
import struct
from types import SimpleNamespace
from typing import Any, cast

import pytest
from aiokafka.protocol.metadata import MetadataRequest, MetadataResponse_v5

from engine.base.errors import BrokerUnreachable, ConnectionLost
from engine.config.tuning.client_tuning import ClientTuning
from engine.kafka.client.connection import Connection, _set_buffers, _take_transport
from tests.fakes.brokers import turns

KEY, VERSION = 3, 0
LARGE = 200_000


class Wire(asyncio.Transport):
    """A transport that keeps what is written."""

    def __init__(self) -> None:
        super().__init__()
        self.written: list[bytes] = []
        self.aborted = False

    def writelines(self, parts: object) -> None:
        self.written.append(b"".join(cast("list[bytes]", parts)))

    def pause_reading(self) -> None:
        """The test reads for it."""

    def is_closing(self) -> bool:
        return self.aborted

    def abort(self) -> None:
        self.aborted = True


class Line:
    """A connection over it, whose other end is the test."""

    def __init__(self) -> None:
        self.wire = Wire()
        self.connection = Connection("h", 1, "me", {})
        self.connection._transport = self.wire

    def ask(self, group: asyncio.TaskGroup, room: "Room | None" = None) -> asyncio.Task[memoryview]:
        return group.create_task(self.connection.request(KEY, VERSION, False, [b"?"], 60.0, room))

    def receive(self, stream: bytes) -> None:
        """Hand bytes over as the event loop does, as many at a time as there is room."""
        while stream:
            buffer = self.connection._frames.get_buffer(-1)
            size = min(len(buffer), len(stream))
            buffer[:size] = stream[:size]
            self.connection._frames.buffer_updated(size)
            stream = stream[size:]


class Room:
    """Memory that is taken away."""

    def __init__(self) -> None:
        self.memory = bytearray(LARGE)

    def room(self, size: int) -> memoryview:
        return memoryview(self.memory)[:size]


def answer(number: int, body: bytes) -> bytes:
    return struct.pack(">ii", 4 + len(body), number) + body


async def test_an_answer_that_nobody_waits_for_is_read_past() -> None:
    line = Line()
    async with asyncio.TaskGroup() as group:
        first, second = line.ask(group), line.ask(group)
        await turns(2)
        first.cancel()
        await turns(2)
        line.receive(answer(1, b"late") + answer(2, b"in time"))
        assert bytes(await second) == b"in time"
    assert not line.wire.aborted


@pytest.mark.parametrize("size", [10, LARGE - 4])
async def test_the_buffer_of_a_request_that_was_given_up_is_not_written_to(size: int) -> None:
    line, room = Line(), Room()
    async with asyncio.TaskGroup() as group:
        first, second = line.ask(group, room), line.ask(group)
        await turns(2)
        first.cancel()
        await turns(2)
        line.receive(answer(1, b"x" * size) + answer(2, b"in time"))
        assert bytes(await second) == b"in time"
    assert (line.wire.aborted, any(room.memory)) == (False, False)


async def test_a_buffer_that_is_being_written_to_costs_the_connection() -> None:
    line, room = Line(), Room()
    async with asyncio.TaskGroup() as group:
        first = line.ask(group, room)
        await turns(2)
        line.receive(answer(1, b"x" * (LARGE - 4))[: LARGE // 2])
        first.cancel()
        await turns(2)
    assert line.wire.aborted


async def test_an_answer_that_arrives_slowly_is_waited_for() -> None:
    line, room = Line(), Room()
    stream = answer(1, b"x" * (LARGE - 4))
    async with asyncio.TaskGroup() as group:
        first = line.ask(group, room)
        for at in range(0, len(stream), 20_000):
            await asyncio.sleep(50.0)
            line.receive(stream[at : at + 20_000])
        assert len(await first) == LARGE - 4
    assert not line.wire.aborted


async def test_an_answer_that_stops_in_the_middle_is_not_waited_for() -> None:
    line, room = Line(), Room()
    loop = asyncio.get_running_loop()
    async with asyncio.TaskGroup() as group:
        first = group.create_task(_loses(line, room))
        await asyncio.sleep(50.0)
        line.receive(answer(1, b"x" * (LARGE - 4))[:20_000])
        since_s = loop.time()
        await first
    assert loop.time() - since_s == pytest.approx(60.0, abs=1.0)
    assert line.wire.aborted


async def _loses(line: Line, room: Room) -> None:
    with pytest.raises(ConnectionLost, match="no answer within 60 s"):
        await line.connection.request(KEY, VERSION, False, [b"?"], 60.0, room)


@pytest.mark.parametrize(
    "frame",
    [answer(7, b"of another"), struct.pack(">ih", 2, 1), struct.pack(">i", 0), struct.pack(">i", -1)],
    ids=["another", "two bytes", "no bytes", "less than none"],
)
async def test_requests_have_their_outcomes_in_order_if_an_answer_belongs_to_none(frame: bytes) -> None:
    line = Line()
    lost: list[int] = []
    line.connection.send(KEY, VERSION, False, [b"?"], lambda _: lost.append(1))
    line.connection.send(KEY, VERSION, False, [b"?"], lambda _: lost.append(2))
    with pytest.raises(ConnectionLost):  # asyncio closes the connection for it
        line.receive(frame)
    line.connection._frames.connection_lost(None)
    assert lost == [1, 2]


class Handshake:
    """What aiokafka leaves after a handshake: a transport, and a task that reads from it."""

    def __init__(self, group: asyncio.TaskGroup) -> None:
        self.wire = Wire()
        self.ended = asyncio.Event()
        self.reader = group.create_task(self._read())

    async def _read(self) -> None:
        await self.ended.wait()

    def left(self) -> Any:
        writer = SimpleNamespace(transport=self.wire)
        return SimpleNamespace(
            host="h", port=1, _reader=None, _writer=writer, _read_task=self.reader, _idle_handle=None
        )


async def test_a_handshake_leaves_its_transport_and_no_reader() -> None:
    async with asyncio.TaskGroup() as group:
        handshake = Handshake(group)
        await turns(1)
        assert await _take_transport(handshake.left()) is handshake.wire
        assert (handshake.reader.cancelled(), handshake.wire.aborted) == (True, False)


async def test_who_is_cancelled_while_it_takes_the_transport_is_cancelled() -> None:
    async with asyncio.TaskGroup() as group:
        handshake = Handshake(group)
        await turns(1)
        taking = group.create_task(_take_transport(handshake.left()))
        await turns(1)
        taking.cancel()
    assert taking.cancelled()
    assert handshake.wire.aborted, "nobody else would close it"


async def test_a_broker_that_hangs_up_right_after_the_handshake_is_unreachable() -> None:
    async with asyncio.TaskGroup() as group:
        handshake = Handshake(group)
        handshake.ended.set()
        await turns(2)
        with pytest.raises(BrokerUnreachable, match="the broker hung up"):
            await _take_transport(handshake.left())
    assert handshake.wire.aborted


@pytest.mark.parametrize("topics", [1, 3000])
async def test_an_answer_is_decoded_the_same_on_the_loop_and_if_it_is_long_in_a_thread(topics: int) -> None:
    line = Line()
    line.connection.versions = {MetadataResponse_v5.API_KEY: (5, 5)}
    names = [f"topic-{number}" for number in range(topics)]
    response = MetadataResponse_v5(
        throttle_time_ms=0, brokers=[], cluster_id="c", controller_id=1, topics=[(0, name, False, []) for name in names]
    )
    async with asyncio.TaskGroup() as group:
        asking = group.create_task(line.connection.call(MetadataRequest([], allow_auto_topic_creation=False)))
        await turns(2)
        line.receive(answer(1, response.encode()))
        found = await asking
    assert [row[1] for row in found.topics] == names


async def test_an_answer_that_cannot_be_read_ends_the_connection() -> None:
    line = Line()
    line.connection.versions = {MetadataResponse_v5.API_KEY: (5, 5)}
    asking = asyncio.create_task(line.connection.call(MetadataRequest([], allow_auto_topic_creation=False)))
    await turns(2)
    line.receive(answer(1, b"\0\0"))
    with pytest.raises(ConnectionLost, match="an answer that cannot be read"):
        await asking
    assert line.wire.aborted


async def test_requests_wait_while_the_connection_logs_in_again() -> None:
    line = Line()
    sasl, other = 17, KEY
    line.connection.hold()
    async with asyncio.TaskGroup() as group:
        waiting = group.create_task(line.connection.request(other, VERSION, False, [b"later"], 60.0))
        await turns(2)
        assert not line.connection.flushed
        login = group.create_task(line.connection.request(sasl, VERSION, False, [b"login"], 60.0))
        await turns(2)
        assert [b"login" in sent for sent in line.wire.written] == [True]
        line.receive(answer(2, b"welcome"))
        assert bytes(await login) == b"welcome"
        line.connection.release()
        assert line.wire.written[1].endswith(b"later")
        line.receive(answer(1, b"late"))
        assert bytes(await waiting) == b"late"


async def test_requests_that_waited_for_a_login_in_vain_are_lost() -> None:
    line = Line()
    line.connection.hold()
    asked = asyncio.create_task(line.connection.request(KEY, VERSION, False, [b"?"], 60.0))
    await turns(2)
    line.connection._frames.connection_lost(None)
    line.connection.release()
    with pytest.raises(ConnectionLost):
        await asked
    assert line.wire.written == []


async def test_requests_that_waited_for_a_login_in_vain_are_lost_after_the_ones_before_it() -> None:
    """A lane takes the answers of its appends in their order, and would wait for a later one that came first."""
    line = Line()
    lost: list[str] = []
    line.connection.send(KEY, VERSION, False, [b"?"], lambda _: lost.append("sent before"))
    line.connection.hold()
    line.connection.send(KEY, VERSION, False, [b"?"], lambda _: lost.append("waited"))
    line.connection.abort()
    line.connection.release()
    line.connection._frames.connection_lost(None)
    assert lost == ["sent before", "waited"]
    assert len(line.wire.written) == 1


async def test_a_connection_at_rest_becomes_stale_unless_an_answer_is_due() -> None:
    line = Line()
    line.connection = Connection("h", 1, "me", {}, ClientTuning(idle_s=5.0))
    line.connection._transport = line.wire
    line.connection._frames.heard_s = asyncio.get_running_loop().time()
    assert not line.connection.is_stale
    async with asyncio.TaskGroup() as group:
        asked = line.ask(group)
        await asyncio.sleep(6.0)
        assert not line.connection.is_stale
        line.receive(answer(1, b"x"))
        await asked
    assert not line.connection.is_stale
    await asyncio.sleep(5.1)
    assert line.connection.is_stale


async def test_without_a_limit_no_connection_is_stale() -> None:
    line = Line()
    await asyncio.sleep(1e6)
    assert not line.connection.is_stale


async def test_a_call_waits_as_long_as_its_client_says() -> None:
    line = Line()
    line.connection = Connection("h", 1, "me", {3: (0, 5)}, ClientTuning(answer_s=2.0))
    line.connection._transport = line.wire
    began_s = asyncio.get_running_loop().time()
    with pytest.raises(ConnectionLost, match="no answer within 2 s"):
        await line.connection.call(MetadataRequest([]))
    assert asyncio.get_running_loop().time() - began_s == pytest.approx(2.0)


class Options:
    """A socket that remembers its options."""

    def __init__(self) -> None:
        self.set: list[tuple[int, int, int]] = []

    def setsockopt(self, level: int, option: int, value: int) -> None:
        self.set.append((level, option, value))


async def test_buffers_of_sockets_are_set_only_if_a_size_is_given() -> None:
    for tuning, expected in (
        (ClientTuning(), []),
        (
            ClientTuning(send_bytes=5000, receive_bytes=6000),
            [(socket.SOL_SOCKET, socket.SO_SNDBUF, 5000), (socket.SOL_SOCKET, socket.SO_RCVBUF, 6000)],
        ),
    ):
        options = Options()
        transport = asyncio.Transport(extra={"socket": options})
        _set_buffers(transport, tuning)
        assert options.set == expected
