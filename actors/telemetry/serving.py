"""Serves the port of metrics and probes. Imported only if one is configured: aiohttp takes 6 MiB of memory."""

import asyncio
from typing import Protocol

from aiohttp import web

from actors.logging.logs import log_sentence
from actors.telemetry.prometheus import CONTENT_TYPE
from engine.base.clock import pause
from engine.config.settings import TelemetryConfig


class Pages(Protocol):
    """The pages that the port serves."""

    async def metrics(self) -> str:
        """Return the page of metrics."""

    def why_dead(self) -> str:
        """Return why the mirror is not alive; empty if it is."""

    def why_not_ready(self) -> str:
        """Return why the mirror is not ready; empty if it is."""


async def serve(pages: Pages, config: TelemetryConfig, again_s: float) -> None:
    """Serve until cancelled; if the port is taken, log it once and try again every `again_s` seconds."""
    runner = web.AppRunner(_app(pages), access_log=None, shutdown_timeout=1.0)
    await runner.setup()
    try:
        await _bind(runner, config, again_s)
        await asyncio.Event().wait()
    finally:
        await runner.cleanup()


async def _bind(runner: web.AppRunner, config: TelemetryConfig, again_s: float) -> None:
    is_logged = False
    while True:
        site = web.TCPSite(runner, config.bind, config.port)
        try:
            return await site.start()
        except OSError as error:
            if not is_logged:
                at = f"{config.bind}:{config.port}"
                log_sentence(
                    "warning", f"metrics cannot be served at {at} ({error.strerror}); trying again every {again_s:g} s"
                )
            is_logged = True
            await pause(again_s)


def _app(pages: Pages) -> web.Application:
    async def metrics(_request: web.Request) -> web.Response:
        page = await pages.metrics()
        response = web.Response(body=page.encode(), headers={"Content-Type": CONTENT_TYPE})
        response.enable_compression()
        return response

    async def healthz(_request: web.Request) -> web.Response:
        return _verdict(pages.why_dead())

    async def readyz(_request: web.Request) -> web.Response:
        return _verdict(pages.why_dead() or pages.why_not_ready())

    app = web.Application()
    app.add_routes([web.get("/metrics", metrics), web.get("/healthz", healthz), web.get("/readyz", readyz)])
    return app


def _verdict(why_not: str) -> web.Response:
    return web.Response(status=503 if why_not else 200, text=(why_not or "ok") + "\n")
