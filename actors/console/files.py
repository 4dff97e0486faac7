"""The static files of the console, read once, each with the headers that it is served with.

A file is found by its name in a table, never by a path: so no request leads out of the folder.
"""

import functools
import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import msgspec

from actors.rest.exchange import HttpAnswer, HttpCall, HttpRefusal
from actors.rest.view import MirrorView

FOLDER: Final = Path(__file__).parent / "static"
START: Final = "index.html"
POLICY: Final = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self'",
        "connect-src 'self'",
        "manifest-src 'none'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
        "trusted-types 'none'",
    )
)
"""The browser runs and loads nothing but these files; no text can become a script, because no part of the page is made
of markup."""
_HEADERS: Final = (
    ("Content-Security-Policy", POLICY),
    ("Cache-Control", "no-cache"),
    ("Referrer-Policy", "no-referrer"),
    ("Cross-Origin-Opener-Policy", "same-origin"),
    ("Cross-Origin-Resource-Policy", "same-origin"),
    ("Permissions-Policy", "camera=(), geolocation=(), microphone=(), payment=(), usb=()"),
)
"""`no-cache`: the browser keeps a file and asks each time whether it is still the same."""
_TYPES: Final = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml; charset=utf-8",
}


class StaticFile(msgspec.Struct, frozen=True):
    """A file of the page: its text, type, and the tag that changes with its bytes."""

    text: str
    content_type: str
    tag: str

    def answer(self) -> HttpAnswer:
        """Return the answer that has the file."""
        return HttpAnswer(body=self.text, content_type=self.content_type, headers=(("ETag", self.tag), *_HEADERS))


@functools.cache
def static_files() -> Mapping[str, StaticFile]:
    """Return all files by their names relative to the folder, e.g. `pages/flow.js`."""
    paths = sorted(path for path in FOLDER.rglob("*") if path.suffix in _TYPES)
    return {path.relative_to(FOLDER).as_posix(): _read(path) for path in paths}


def _read(path: Path) -> StaticFile:
    data = path.read_bytes()
    tag = f'"{hashlib.sha256(data).hexdigest()[:32]}"'
    return StaticFile(data.decode(), _TYPES[path.suffix], tag)


def start_page(_call: HttpCall, _view: MirrorView) -> HttpAnswer:
    """Return the page itself."""
    return static_files()[START].answer()


def static_file(call: HttpCall, _view: MirrorView) -> HttpAnswer:
    """Return a file that the page loads. Raises HttpRefusal (404) if there is none of this name."""
    parts = [call.path[part] for part in ("folder", "file") if part in call.path]
    found = None if any("/" in part for part in parts) else static_files().get("/".join(parts))
    if found is None:
        raise HttpRefusal(404, "The console has no such file")
    return found.answer()
