"""A bucket of S3 in this process: its threads answer only while the thread that asks lets other Python code run.

So a client that waits for an answer and holds the interpreter meanwhile gets none, and times out.
"""

import hashlib
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar, NamedTuple
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

BUCKET = "kept"
URI = f"s3a://{BUCKET}/store"
_AT = "2026-05-01T12:00:00.000Z"


class _Object(NamedTuple):
    content: bytes
    tag: str


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    objects: ClassVar[dict[str, _Object]]
    lock: ClassVar[threading.Lock]
    before_put: ClassVar[list[Callable[[str], None]]]

    def log_message(self, *_: object) -> None:
        """Say nothing."""

    def _key(self) -> str:
        return unquote(urlsplit(self.path).path).removeprefix(f"/{BUCKET}").removeprefix("/")

    def _answer(self, status: int, body: bytes = b"", **headers: str) -> None:
        self.send_response(status)
        for name, value in ({"Content-Length": str(len(body))} | headers).items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def _body(self) -> bytes:
        raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        return _unchunked(raw) if "aws-chunked" in self.headers.get("Content-Encoding", "") else raw

    def do_PUT(self) -> None:
        body, key = self._body(), self._key()
        for call in self.before_put:
            call(key)
        with self.lock:
            if self.headers.get("If-None-Match") == "*" and key in self.objects:
                self._answer(412, b"<Error><Code>PreconditionFailed</Code><Message>it exists</Message></Error>")
                return
            tag = self.objects.setdefault(key, _Object(body, f'"{hashlib.md5(body).hexdigest()}"')).tag
        self._answer(200, ETag=tag)

    def do_DELETE(self) -> None:
        with self.lock:
            self.objects.pop(self._key(), None)
        self._answer(204)

    def do_GET(self) -> None:
        query = parse_qs(urlsplit(self.path).query)
        if "list-type" in query:
            self._list({name: values[0] for name, values in query.items()})
            return
        found = self.objects.get(self._key())
        if found is None and self._key():
            self._answer(404, b"<Error><Code>NoSuchKey</Code><Message>none of this name</Message></Error>")
            return
        self._content(found or _Object(b"", '""'))

    do_HEAD = do_GET

    def _content(self, found: _Object) -> None:
        whole, headers = found.content, {"ETag": found.tag, "Last_Modified": formatdate(usegmt=True)}
        wanted = self.headers.get("Range", "").removeprefix("bytes=")
        if not wanted or self.command == "HEAD":
            self._answer(200, whole, **headers)
            return
        first, _, last = wanted.partition("-")
        begin = int(first) if first else max(0, len(whole) - int(last))
        end = min(int(last) + 1, len(whole)) if first and last else len(whole)
        span = f"bytes {begin}-{end - 1}/{len(whole)}"
        self._answer(206, whole[begin:end], **headers, Content_Range=span)

    def _list(self, query: dict[str, str]) -> None:
        prefix, after = query.get("prefix", ""), query.get("start-after", "")
        with self.lock:
            found = sorted((key, one) for key, one in self.objects.items() if key.startswith(prefix) and key > after)
        ends = {key: key.find("/", len(prefix)) + 1 for key, _ in found if query.get("delimiter")}
        folders = sorted({key[:end] for key, end in ends.items() if end})
        lines = [_line(key, one) for key, one in found if not ends.get(key)]
        lines += [f"<CommonPrefixes><Prefix>{escape(one)}</Prefix></CommonPrefixes>" for one in folders]
        head = f"<Name>{BUCKET}</Name><KeyCount>{len(lines)}</KeyCount><IsTruncated>false</IsTruncated>"
        self._answer(200, f"<ListBucketResult>{head}{''.join(lines)}</ListBucketResult>".encode())


def _line(key: str, one: _Object) -> str:
    told = {"Key": key, "LastModified": _AT, "ETag": one.tag, "Size": len(one.content), "StorageClass": "STANDARD"}
    return (
        "<Contents>" + "".join(f"<{name}>{escape(str(value))}</{name}>" for name, value in told.items()) + "</Contents>"
    )


def _unchunked(raw: bytes) -> bytes:
    """Return what a body of `aws-chunked` holds: each chunk has its size in hexadecimal before it."""
    found = b""
    while raw:
        head, _, raw = raw.partition(b"\r\n")
        size = int(head.split(b";")[0], 16)
        if not size:
            break
        found, raw = found + raw[:size], raw[size + 2 :]
    return found


@contextmanager
def bucket(*before_put: Callable[[str], None]) -> Iterator[dict[str, str]]:
    """Serve an empty bucket; yield the variables by which clients find it.

    `before_put`: called with the key of each object, before it is stored.
    """
    own = {"objects": {}, "lock": threading.Lock(), "before_put": [*before_put]}
    handler: Any = type("Handler", (_Handler,), own)
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True  # clients keep their connections
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield {
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{server.server_address[1]}",
            "AWS_ACCESS_KEY_ID": "a",
            "AWS_SECRET_ACCESS_KEY": "b",
            "AWS_REGION": "us-east-1",
        }
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
