"""The console in a browser: opens it, presses its buttons and types into its fields."""

import asyncio
import json
from typing import Any

from tests.harness.browser import Tab

_DEADLINE_S = 120.0


class ConsolePage:
    """The console of the server at a port of this machine."""

    def __init__(self, port: int, tab: Tab) -> None:
        self.port, self.tab = port, tab
        self.url = f"http://127.0.0.1:{port}"

    async def open(self, fragment: str = "#/", **how: Any) -> None:
        """Open a page afresh, as soon as the server listens."""
        async with asyncio.timeout(_DEADLINE_S):
            while True:
                try:
                    _, writer = await asyncio.open_connection("127.0.0.1", self.port)
                except ConnectionRefusedError:
                    await asyncio.sleep(0.01)
                else:
                    break
        writer.close()
        await self.tab.go("about:blank", **how)
        await self.tab.go(f"{self.url}/console/{fragment}", **how)

    async def click(self, text: str, within: str = "body") -> None:
        """Press the button or link of a text, as soon as it is there."""
        found = (
            f"[...document.querySelectorAll('{within} button, {within} a')].find(one => !one.disabled &&"
            f" one.textContent.trim() === {json.dumps(text)})"
        )
        await self.tab.until(f"{found} !== undefined")
        await self.tab.value(f"{found}.click()")

    async def type(self, field: str, text: str) -> None:
        """Type into a field."""
        await self.tab.until(f"document.querySelector({json.dumps(field)}) !== null")
        await self.tab.value(f"document.querySelector({json.dumps(field)}).focus()")
        await self.tab.write(text)
