"""Sends the live stream of a mirror to one client, until it ends or goes away."""

import asyncio
from collections.abc import Iterable
from typing import Final

from aiohttp import hdrs, web
from multidict import CIMultiDict

from actors.api.hub import StreamReader
from actors.rest.exchange import HttpAnswer

SEND_S: Final = 60.0
"""Seconds that one write may take; then the client has read too slowly."""


async def send_stream(
    request: web.BaseRequest, answer: HttpAnswer, reader: StreamReader, headers: Iterable[tuple[str, str]]
) -> web.StreamResponse:
    """Send what a reader gets as server-sent events; `headers`: those of every answer."""
    response = web.StreamResponse(headers=CIMultiDict([*headers, *answer.headers]))
    response.headers[hdrs.CONTENT_TYPE] = answer.content_type
    response.headers["X-Accel-Buffering"] = "no"  # nginx would hold messages back
    response.force_close()
    try:
        await response.prepare(request)
        while chunk := await reader.next():
            async with asyncio.timeout(SEND_S):
                await response.write(chunk)
        if reader.is_dropped:
            raise TimeoutError
        await response.write_eof()
    except (TimeoutError, ConnectionError):
        if request.transport is not None:
            request.transport.abort()
    return response
