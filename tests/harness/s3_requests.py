"""Signed requests to an S3 server, for what no client of ours offers: a put that only one of several may win."""

import hashlib
import hmac
import http.client
from datetime import UTC, datetime
from typing import NamedTuple

from deploy.local.ports import HOST
from tests.harness.s3_server import BUCKET, KEY, SECRET, S3Server

_TIMEOUT_S = 60.0


class Answer(NamedTuple):
    """Status and body of an answer."""

    status: int
    body: bytes


def put_new(server: S3Server, name: str, content: bytes) -> Answer:
    """Put an object that must not exist yet (If-None-Match: *)."""
    return _request(server, "PUT", f"/{BUCKET}/{name}", content, {"if-none-match": "*"})


def read(server: S3Server, name: str) -> Answer:
    """Read an object."""
    return _request(server, "GET", f"/{BUCKET}/{name}", b"", {})


def _request(server: S3Server, method: str, path: str, body: bytes, more: dict[str, str]) -> Answer:
    digest = hashlib.sha256(body).hexdigest()
    at = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
    headers = {"host": f"{HOST}:{server.port}", "x-amz-content-sha256": digest, "x-amz-date": at, **more}
    headers["authorization"] = _signature(method, path, headers, digest)
    connection = http.client.HTTPConnection(HOST, server.port, timeout=_TIMEOUT_S)
    try:
        connection.request(method, path, body, headers)
        answer = connection.getresponse()
        return Answer(answer.status, answer.read())
    finally:
        connection.close()


def _signature(method: str, path: str, headers: dict[str, str], digest: str) -> str:
    """Sign a request as version 4 of Amazon's signatures asks."""
    at, names = headers["x-amz-date"], ";".join(sorted(headers))
    lines = [method, path, "", *(f"{name}:{headers[name]}" for name in sorted(headers)), "", names, digest]
    scope = f"{at[:8]}/us-east-1/s3/aws4_request"
    to_sign = f"AWS4-HMAC-SHA256\n{at}\n{scope}\n{hashlib.sha256(chr(10).join(lines).encode()).hexdigest()}"
    key = f"AWS4{SECRET}".encode()
    for part in scope.split("/"):
        key = hmac.digest(key, part.encode(), "sha256")
    signed = hmac.digest(key, to_sign.encode(), "sha256").hex()
    return f"AWS4-HMAC-SHA256 Credential={KEY}/{scope}, SignedHeaders={names}, Signature={signed}"
