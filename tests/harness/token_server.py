"""A small authorization server: it signs tokens (RS256) for client credentials, assertions, refresh tokens, passwords.

It follows RFC 6749, 7521, 7523 and 7517 as far as clients and brokers need them: errors have their names, a client
proves itself by HTTP Basic or by an assertion that is verified, and brokers verify tokens by the keys at `/jwks`.
"""

import base64
import binascii
import json
import ssl
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa

CLIENT_ID, SECRET = "mirror", "of the client/+="
ISSUER, AUDIENCE = "https://issuer.test", "kafka"
JWT_BEARER = "urn:ietf:params:oauth:grant-type:jwt-bearer"
ASSERTION_TYPE = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
KEY_ID = "one"


class Refused(Exception):
    """An error of RFC 6749, 5.2: its name, and the status."""

    def __init__(self, name: str, status: int = 400) -> None:
        super().__init__(name, status)
        self.name, self.status = name, status


class TokenServer:
    """What the server knows: its key, the clients' key, what it was asked. Tests set `lifetime_s` and `failures`."""

    def __init__(self, *, lifetime_s: float = 3600.0, client_key: rsa.RSAPublicKey | None = None) -> None:
        self._key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        self._client_key = client_key
        self.lifetime_s = lifetime_s
        self.failures: list[int] = []
        """Statuses of the next answers, before it works again."""
        self.asked: list[dict[str, str]] = []
        self.url = ""

    def answer(self, form: Mapping[str, str], authorization: str) -> dict[str, Any]:
        """Return the answer to a request for a token. Raises Refused."""
        self.asked.append(dict(form))
        if self.failures:
            raise Refused("temporarily_unavailable", self.failures.pop(0))
        subject = self._subject(form, authorization)
        return {
            "access_token": self.token(subject, form.get("scope", "")),
            "token_type": "Bearer",
            "expires_in": int(self.lifetime_s),
        }

    def _subject(self, form: Mapping[str, str], authorization: str) -> str:
        match form.get("grant_type"):
            case "client_credentials" if form.get("client_assertion_type") == ASSERTION_TYPE:
                return self._asserted(form.get("client_assertion", ""))
            case "client_credentials":
                return self._client(authorization)
            case grant if grant == JWT_BEARER:
                return self._asserted(form.get("assertion", ""))
            case "refresh_token" if form.get("refresh_token") == "refresh-me":
                return form["client_id"]
            case "password" if (form.get("username"), form.get("password")) == ("alice", "wonder"):
                return form["username"]
        raise Refused("unsupported_grant_type")

    def _client(self, authorization: str) -> str:
        try:
            name, _, secret = base64.b64decode(authorization.removeprefix("Basic ")).decode().partition(":")
        except (binascii.Error, ValueError):
            raise Refused("invalid_client", 401) from None
        if (name, secret) != (CLIENT_ID, SECRET):
            raise Refused("invalid_client", 401)
        return name

    def _asserted(self, assertion: str) -> str:
        """Verify an assertion: signature, audience, time (RFC 7523, section 3)."""
        head, _, signature = assertion.rpartition(".")
        if self._client_key is None:
            raise Refused("invalid_grant")
        try:
            self._client_key.verify(decoded(signature), head.encode(), padding.PKCS1v15(), hashes.SHA256())
        except InvalidSignature:
            raise Refused("invalid_grant") from None
        claims = json.loads(decoded(head.partition(".")[2]))
        if claims.get("aud") != ISSUER or not claims["nbf"] <= time.time() < claims["exp"]:
            raise Refused("invalid_grant")
        return str(claims["sub"])

    def token(self, subject: str, scope: str = "") -> str:
        """Return a signed token."""
        now = time.time()
        claims = {"iss": ISSUER, "aud": AUDIENCE, "sub": subject, "iat": int(now), "exp": int(now + self.lifetime_s)}
        claims |= {"scope": scope} if scope else {}
        head = ".".join(_part(one) for one in ({"alg": "RS256", "typ": "JWT", "kid": KEY_ID}, claims))
        return f"{head}.{_encoded(self._key.sign(head.encode(), padding.PKCS1v15(), hashes.SHA256()))}"

    def keys(self) -> dict[str, Any]:
        """Return the public key as brokers read it (RFC 7517)."""
        numbers = self._key.public_key().public_numbers()
        modulus = numbers.n.to_bytes(256, "big")
        key = {"kty": "RSA", "alg": "RS256", "use": "sig", "kid": KEY_ID, "n": _encoded(modulus), "e": "AQAB"}
        return {"keys": [key]}


def decoded(text: str) -> bytes:
    """Return the bytes of a part of a JWT."""
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def _encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _part(content: Mapping[str, Any]) -> str:
    return _encoded(json.dumps(content).encode())


@contextmanager
def serving(server: TokenServer, certificate: Path | None = None) -> Iterator[TokenServer]:
    """Serve on a port of this machine; with a PEM file of key and certificate by TLS."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            form = self.rfile.read(int(self.headers["Content-Length"])).decode()
            fields = {name: values[0] for name, values in parse_qs(form).items()}
            try:
                self._say(200, server.answer(fields, self.headers.get("Authorization", "")))
            except Refused as refused:
                self._say(refused.status, {"error": refused.name, "error_description": "as the test wants it"})

        def do_GET(self) -> None:
            self._say(200, server.keys())

        def _say(self, status: int, content: Mapping[str, Any]) -> None:
            body = json.dumps(content).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_words: object) -> None:
            """Nothing is printed."""

    listener = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    if certificate is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
        listener.socket = context.wrap_socket(listener.socket, server_side=True)
    scheme = "http" if certificate is None else "https"
    server.url = f"{scheme}://127.0.0.1:{listener.server_port}/token"
    thread = threading.Thread(target=listener.serve_forever, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        listener.shutdown()
        listener.server_close()
        thread.join()
