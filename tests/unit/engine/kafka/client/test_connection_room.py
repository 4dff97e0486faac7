"""An answer for which there is no memory costs its connection, and nothing is reported: on a socket of each loop."""

import asyncio
import struct
from collections.abc import Callable
from typing import Any

import pytest
import uvloop

from engine.base.errors import ConnectionLost
from engine.flow.ports.ports import NoRoom
from engine.kafka.client.connection import Connection

pytestmark = pytest.mark.local

LARGE = 300_000


class Full:
    """Memory that is full."""

    def room(self, size: int) -> memoryview:
        raise NoRoom(size)


async def _broker(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer each request with more than is asked for."""
    try:
        while True:
            (size,) = struct.unpack(">i", await reader.readexactly(4))
            request = await reader.readexactly(size)
            (number,) = struct.unpack_from(">i", request, 4)
            writer.write(struct.pack(">ii", 4 + LARGE, number) + bytes(LARGE))
    except (asyncio.IncompleteReadError, ConnectionError):
        writer.close()


async def _ask() -> list[dict[str, Any]]:
    """Ask for an answer that finds no memory; return what the loop reported."""
    reported: list[dict[str, Any]] = []
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, context: reported.append(context))
    async with await asyncio.start_server(_broker, "127.0.0.1", 0) as server:
        connection = Connection("127.0.0.1", 1, "me", {})
        port = server.sockets[0].getsockname()[1]
        transport, _ = await loop.create_connection(asyncio.Protocol, "127.0.0.1", port)
        connection._adopt(transport)
        with pytest.raises(ConnectionLost):
            await connection.request(1, 4, False, [b"?"], 30.0, Full())
        with pytest.raises(ConnectionLost):
            await connection.request(1, 4, False, [b"?"], 30.0, Full())
        assert connection.closed.is_set()
        await connection.close()
    return reported


@pytest.mark.parametrize("new_loop", [asyncio.SelectorEventLoop, uvloop.new_event_loop])
def test_an_answer_without_memory_ends_the_connection(new_loop: Callable[[], asyncio.AbstractEventLoop]) -> None:
    with asyncio.Runner(loop_factory=new_loop) as runner:
        assert runner.run(_ask()) == []
