"""Sends the live stream of a mirror to one client, until it ends or goes away."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Final

from aiohttp import hdrs, web
from multidict import CIMultiDict

from actors.api.deltas import MessageKind, message
from actors.api.entities import StreamEnd
from actors.api.hub import StreamReader, encoded
from actors.rest.exchange import HttpAnswer
from engine.base.clock import now_s

SEND_S: Final = 60.0
"""Seconds that one write may take; then the client has read too slowly."""
ASK_S: Final = 10.0
"""Seconds after which a reader must still be somebody who may read; something is sent at least every 15 s."""
_OVER: Final = encoded(message(MessageKind.END, StreamEnd(why="its user has logged out or changed", again=True)))


async def send_stream(
    request: web.BaseRequest,
    answer: HttpAnswer,
    reader: StreamReader,
    headers: Iterable[tuple[str, str]],
    may_read: Callable[[], Awaitable[bool]],
) -> web.StreamResponse:
    """Send what a reader gets as server-sent events; `headers`: those of every answer.

    `may_read`: whether the client may still have it. It is asked again and again: a session or a password can end
    while the stream is open.
    """
    response = web.StreamResponse(headers=CIMultiDict([*headers, *answer.headers]))
    response.headers[hdrs.CONTENT_TYPE] = answer.content_type
    response.headers["X-Accel-Buffering"] = "no"  # nginx would hold messages back
    response.force_close()
    try:
        await response.prepare(request)
        asked_at_s = now_s()
        while chunk := await reader.next():
            if now_s() - asked_at_s >= ASK_S:
                asked_at_s = now_s()
                if not await may_read():
                    reader.end()
                    chunk = _OVER
            async with asyncio.timeout(SEND_S):
                await response.write(chunk)
        if reader.is_dropped:
            raise TimeoutError
        await response.write_eof()
    except (TimeoutError, ConnectionError):
        if request.transport is not None:
            request.transport.abort()
    return response
