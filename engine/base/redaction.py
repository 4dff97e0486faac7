"""Hides secrets in texts that leave the process: the only module that decides what such a text may not show.

Raymirror's own texts repeat no secret. But texts of libraries, of Java and of servers may. So every text of theirs goes
through `redacted` before it enters an error, a log, an event or the terminal. It hides

    - the secrets that this process has resolved (`remember_secret`), wherever they stand, also escaped or encoded,
    - what stands behind a name such as `password =`, a PEM block of a private key, and the password of a URL.
"""

import json
import logging
import re
import sys
import threading
import traceback
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Iterator, Mapping
from threading import Lock
from types import TracebackType
from urllib.parse import quote, quote_plus, unquote

HIDDEN = "[hidden]"
LEAST = 4
"""A shorter value is not looked for: it would be found in every other word."""
_MOST, _MOST_PASSING = 1000, 100
"""Secrets that are looked for; of more, the one that was not heard of for longest is forgotten. Those that expire by
themselves have a share of their own: a token every 30 s would soon displace the passwords of the configuration."""
_PEM_LINE = 24
"""A line of a PEM block with at least so many characters is a secret by itself: a text may show only a part."""
SECRET_WORDS = r"password|passwd|passphrase|secret|token|assertion|credential|private|api[._-]?key|user\.info"
"""Words in the names of settings whose values may be secrets."""
_NAMED = re.compile(
    rf"(?i)((?:{SECRET_WORDS}|authorization)[a-z_.-]*[\"']?\s*[=:]\s*)"
    r"(?:(?:bearer|basic)\s+)?(\\\"[^\"]*\"|\"(?:[^\"\\]|\\.)*\"|'(?:[^'\\]|\\.)*'|[^\s,;\"']+(?:[,;][^\s,;\"']+)*)"
)
_VARIABLE = re.compile(rf"(?i){SECRET_WORDS}|^OTEL_EXPORTER_OTLP\w*_HEADERS$")
_LEAST_OF_VARIABLE = 8
"""A variable with a shorter value is more likely a switch such as `TOKEN_CHECK=true`."""
_PLACES = ("_PATH", "_FILE", "_DIR", "_URL", "_URI", "_ID")
"""Ends of names of variables that say where a secret is, not what it is."""
_SCHEME = re.compile(r"(?i)\s*(?:bearer|basic)\s+")
_USERINFO = re.compile(r"(://)(?:[^/?#\s:@]*:[^/?#\s]*|(?<=http://)[^/?#\s]+|(?<=https://)[^/?#\s]+)@")
"""A login before a host, up to the last `@`; without a colon only of HTTP, because others have a bucket there."""
_PRIVATE_KEY = re.compile(r"-----BEGIN ([A-Z ]*PRIVATE KEY)-----.*?(?:-----END \1-----|\Z)", re.DOTALL)

_lock = Lock()
_kept: dict[str, tuple[str, ...]] = {}
"""The spellings of each secret of a configuration or the environment, that of the longest silence first."""
_passing: dict[str, tuple[str, ...]] = {}
"""The same of secrets that expire by themselves."""
_search: re.Pattern[str] | None = None
_is_stale = False
"""Whether secrets came that `_search` does not look for: it is made when a text is looked at."""


def remember_secret(value: str) -> None:
    """Hide a value in every text from now on, in each spelling that a text may have. Safe from any thread."""
    _remember(_kept, _MOST, value)


def remember_token(value: str) -> None:
    """Hide a value that expires by itself, until a hundred others have followed it. Safe from any thread."""
    _remember(_passing, _MOST_PASSING, value)


def _remember(some: dict[str, tuple[str, ...]], most: int, value: str) -> None:
    global _is_stale
    with _lock:
        known = some.pop(value, None)
        spellings = tuple(dict.fromkeys(_spellings(value))) if known is None else known
        if spellings:
            some[value] = spellings
        if known is None and spellings:
            _is_stale = True
            for oldest in list(some)[:-most]:
                del some[oldest]


def _pattern() -> re.Pattern[str] | None:
    """Return what finds all secrets, None without any."""
    global _search, _is_stale
    if _is_stale:
        with _lock:
            texts = {text for some in (_kept, _passing) for spellings in some.values() for text in spellings}
            _search = re.compile("|".join(map(re.escape, sorted(texts, key=len, reverse=True))))
            _is_stale = False
    return _search


def remember_environment(environment: Mapping[str, str]) -> None:
    """Hide the secrets that environment variables hold, e.g. `AWS_SECRET_ACCESS_KEY` and the headers of OTLP."""
    for name, value in environment.items():
        if _VARIABLE.search(name) and not name.endswith(_PLACES) and len(value) >= _LEAST_OF_VARIABLE:
            remember_secret(value)
            for header in value.split(",") if name.endswith("_HEADERS") else ():
                remember_secret(_SCHEME.sub("", unquote(header.partition("=")[2])))


def redacted(text: str) -> str:
    """Return a text of a library, of Java or of a server without secrets."""
    return _NAMED.sub(rf"\1{HIDDEN}", own_redacted(text))


def own_redacted(text: str) -> str:
    """Return a text of raymirror without secrets: what it says of a setting such as `ssl.key.password: ...` stays."""
    if (search := _pattern()) is not None:
        text = search.sub(HIDDEN, text)
    return _USERINFO.sub(rf"\1{HIDDEN}@", _PRIVATE_KEY.sub(HIDDEN, text))


class HidingFormatter(logging.Formatter):
    """Formats lines of libraries, with their tracebacks, without secrets."""

    def format(self, record: logging.LogRecord) -> str:
        """Return a line as the default formatter does."""
        return redacted(super().format(record))


def hide_in_tracebacks() -> None:
    """Hide secrets in what Python itself prints: of errors that nobody handles, and of libraries where nothing logs.

    Hooks that somebody else has set stay.
    """
    if sys.excepthook is sys.__excepthook__:
        sys.excepthook = _print_error
    if threading.excepthook is threading.__excepthook__:
        threading.excepthook = _print_error_of_thread
    if logging.lastResort is not None:
        logging.lastResort.setFormatter(HidingFormatter())


def _print_error(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    sys.stderr.write(redacted("".join(traceback.format_exception(kind, error, trace))))


def _print_error_of_thread(failed: threading.ExceptHookArgs) -> None:
    if failed.exc_value is not None and failed.exc_type is not SystemExit:
        name = failed.thread.name if failed.thread is not None else "?"
        sys.stderr.write(f"Exception in thread {name}:\n")
        _print_error(failed.exc_type, failed.exc_value, failed.exc_traceback)


def error_text(error: BaseException) -> str:
    """Return the text of an error of a library without secrets; the name of its class, if it has no text."""
    return redacted(str(error)) or type(error).__name__


def _spellings(value: str) -> Iterator[str]:
    """Yield a value as texts may have it, the lines of a PEM block apart, because a text may show only a part."""
    value = value.strip()
    for text in _escaped(value):
        if len(text) >= LEAST:
            yield text
    if "PRIVATE KEY-----" in value:
        lines = map(str.strip, value.splitlines())
        yield from (line for line in lines if len(line) >= _PEM_LINE and not line.startswith("-"))


def _escaped(value: str) -> Iterator[str]:
    """Yield a value as it is, as in Java's and Python's texts, JSON, addresses and headers."""
    data = value.encode(errors="surrogatepass")
    yield from (value, value.replace('"', '\\"'), value.replace("\n", "\\n"), value.replace("\\", "\\\\"))
    yield from (json.dumps(value)[1:-1], json.dumps(value, ensure_ascii=False)[1:-1])
    yield from (repr(value)[1:-1], repr(data)[2:-1])
    yield from (quote(data, safe=""), quote(data), quote_plus(data))
    yield from (b64encode(data).decode(), urlsafe_b64encode(data).decode().rstrip("="))
