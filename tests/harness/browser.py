"""A headless Chromium for tests of pages: what it draws, its console, its requests."""

import asyncio
import base64
import itertools
import os
import shutil
import signal
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
_FLAGS = ("--headless", "--disable-gpu", "--no-first-run", "--disable-dev-shm-usage", "--remote-debugging-port=0")
_DEADLINE_S = 120.0
_COMPLAINTS = ("Log.entryAdded", "Runtime.consoleAPICalled", "Runtime.exceptionThrown")
_MOST_BYTES = 64 * 2**20


def find_browser() -> str | None:
    """Find an installed browser, None where there is none."""
    return next((path for name in NAMES if (path := shutil.which(name)) is not None), None)


class Tab:
    """One page of the browser, through its DevTools protocol."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self.complaints: list[str] = []
        self.requests: list[str] = []
        self._socket = socket
        self._numbers = itertools.count(1)

    async def call(self, method: str, **params: Any) -> dict[str, Any]:
        """Call a method of the protocol; what the browser tells meanwhile is noted."""
        number = next(self._numbers)
        await self._socket.send_json({"id": number, "method": method, "params": params})
        while (told := await self._next()).get("id") != number:
            pass
        assert "error" not in told, told
        result: dict[str, Any] = told["result"]
        return result

    async def _next(self) -> dict[str, Any]:
        async with asyncio.timeout(_DEADLINE_S):
            told: dict[str, Any] = await self._socket.receive_json()
        if told.get("method") in _COMPLAINTS:
            self.complaints.append(str(told["params"]))
        if told.get("method") == "Network.requestWillBeSent":
            self.requests.append(told["params"]["request"]["url"])
        return told

    async def open(self, page: Path, *, width: int = 1280, dark: bool = False) -> None:
        """Open a file and wait until it is loaded."""
        await self.go(page.as_uri(), width=width, dark=dark)

    async def go(self, url: str, *, width: int = 1280, dark: bool = False) -> None:
        """Open an address and wait until it is loaded."""
        for domain in ("Page", "Log", "Runtime", "Network"):
            await self.call(f"{domain}.enable")
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        await self.call("Emulation.setEmulatedMedia", features=[scheme])
        await self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=width < 600
        )
        self.complaints.clear()
        self.requests.clear()
        await self._socket.send_json({"id": 0, "method": "Page.navigate", "params": {"url": url}})
        while (await self._next()).get("method") != "Page.loadEventFired":
            pass

    async def value(self, expression: str) -> Any:
        """Give the value of a JavaScript expression on the page."""
        told = await self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in told, told
        return told["result"].get("value")

    async def until(self, condition: str) -> None:
        """Wait until a JavaScript expression is true on the page, which looks at each frame that it draws."""
        look = f"const look = () => ({condition}) ? done(true) : requestAnimationFrame(look); look();"
        async with asyncio.timeout(_DEADLINE_S):
            await self.value(f"new Promise((done) => {{ {look} }})")

    async def press(self, key: str) -> None:
        """Press a key."""
        text = {"text": key} if len(key) == 1 else {}
        await self.call("Input.dispatchKeyEvent", type="keyDown", key=key, **text)
        await self.call("Input.dispatchKeyEvent", type="keyUp", key=key)

    async def write(self, text: str) -> None:
        """Type a text into what has the focus."""
        await self.call("Input.insertText", text=text)

    async def picture(self, path: Path, *, most_height: int = 0) -> None:
        """Keep a picture of the whole page, or of its beginning."""
        width, height = await self.value("[document.documentElement.clientWidth, document.body.scrollHeight]")
        clip = {"x": 0, "y": 0, "width": width, "height": min(height, most_height or height), "scale": 1}
        told = await self.call("Page.captureScreenshot", clip=clip, captureBeyondViewport=True)
        path.write_bytes(base64.b64decode(told["data"]))


@asynccontextmanager
async def browser(command: str, folder: Path) -> AsyncIterator[Tab]:
    """Start a browser with a profile of its own in a folder, and kill it at the end."""
    sandbox = ("--no-sandbox",) if os.geteuid() == 0 else ()
    words = [command, *_FLAGS, *sandbox, f"--user-data-dir={folder}", "about:blank"]
    with (folder.with_name(f"{folder.name}.log")).open("wb") as log:
        process = subprocess.Popen(words, stdout=log, stderr=log, start_new_session=True)
    try:
        port = await _port(folder / "DevToolsActivePort", process)
        async with aiohttp.ClientSession() as session:
            async with session.get(f"http://127.0.0.1:{port}/json/list") as answer:
                pages = [one for one in await answer.json() if one["type"] == "page"]
            async with session.ws_connect(pages[0]["webSocketDebuggerUrl"], max_msg_size=_MOST_BYTES) as socket:
                yield Tab(socket)
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait(_DEADLINE_S)


async def _port(file: Path, process: "subprocess.Popen[bytes]") -> int:
    """Wait until the browser has written where it listens."""
    async with asyncio.timeout(_DEADLINE_S):
        while True:
            assert process.poll() is None, f"the browser ended with {process.returncode}"
            if file.exists() and (lines := file.read_text().split()):
                return int(lines[0])
            await asyncio.sleep(0.05)
