"""Hides secrets in texts that leave the process: the only module that decides what such a text may not show.

Raymirror's own texts repeat no secret. But texts of libraries, of Java and of servers may. So every text of theirs goes
through `redacted` before it enters an error, a log, an event or the terminal. It hides

    - the secrets that this process has resolved (`remember_secret`), wherever they stand, also escaped or encoded,
    - what stands behind a name such as `password =`, a PEM block of a private key, and the password of a URL.
"""

import re
from base64 import b64encode
from collections.abc import Iterable, Iterator, Mapping
from threading import Lock
from urllib.parse import quote, unquote

HIDDEN = "[hidden]"
LEAST = 4
"""A shorter value is not looked for: it would be found in every other word."""
_MOST = 512
"""Texts that are looked for; the oldest ones, of tokens and rotated passwords, are forgotten first."""
_PEM_LINE = 24
"""A line of a PEM block with at least so many characters is a secret by itself: a text may show only a part."""
SECRET_WORDS = r"password|passwd|passphrase|secret|token|assertion|credential|private|api[._-]?key|user\.info"
"""Words in the names of settings whose values may be secrets."""
_NAMED = re.compile(
    rf"(?i)((?:{SECRET_WORDS}|authorization)[a-z_.-]*[\"']?\s*[=:]\s*)"
    r"(?:(?:bearer|basic)\s+)?(\\\"[^\"]*\"|\"(?:[^\"\\]|\\.)*\"|'[^']*'|[^\s,;\"']+)"
)
_VARIABLE = re.compile(rf"(?i){SECRET_WORDS}|^OTEL_EXPORTER_OTLP\w*_HEADERS$")
_LEAST_OF_VARIABLE = 8
"""A variable with a shorter value is more likely a switch such as `TOKEN_CHECK=true`."""
_PLACES = ("_PATH", "_FILE", "_DIR", "_URL", "_URI", "_ID")
"""Ends of names of variables that say where a secret is, not what it is."""
_USERINFO = re.compile(r"(://)[^/\s:@]*:[^/\s@]+@")
_PRIVATE_KEY = re.compile(r"-----BEGIN ([A-Z ]*PRIVATE KEY)-----.*?(?:-----END \1-----|\Z)", re.DOTALL)

_lock = Lock()
_known: dict[str, None] = {}
"""The spellings of all secrets that were resolved, in the order of their arrival."""
_search: re.Pattern[str] | None = None


def remember_secret(value: str) -> None:
    """Hide a value in every text from now on, in each spelling that a text may have. Safe from any thread."""
    global _search
    with _lock:
        new = [text for text in _spellings(value) if text not in _known]
        if not new:
            return
        _known.update(dict.fromkeys(new))
        for oldest in list(_known)[:-_MOST]:
            del _known[oldest]
        _search = re.compile("|".join(map(re.escape, sorted(_known, key=len, reverse=True))))


def remember_environment(environment: Mapping[str, str]) -> None:
    """Hide the secrets that environment variables hold, e.g. `AWS_SECRET_ACCESS_KEY` and the headers of OTLP."""
    for name, value in environment.items():
        if _VARIABLE.search(name) and not name.endswith(_PLACES) and len(value) >= _LEAST_OF_VARIABLE:
            remember_secret(value)
            for header in value.split(",") if name.endswith("_HEADERS") else ():
                remember_secret(unquote(header.partition("=")[2]).removeprefix("Bearer ").removeprefix("Basic "))


def forget_secrets() -> None:
    """Forget all values: for tests."""
    global _search
    with _lock:
        _known.clear()
        _search = None


def redacted(text: str) -> str:
    """Return a text of a library, of Java or of a server without secrets."""
    return _NAMED.sub(rf"\1{HIDDEN}", own_redacted(text))


def own_redacted(text: str) -> str:
    """Return a text of raymirror without secrets: what it says of a setting such as `ssl.key.password: ...` stays."""
    if _search is not None:
        text = _search.sub(HIDDEN, text)
    return _USERINFO.sub(rf"\1{HIDDEN}@", _PRIVATE_KEY.sub(HIDDEN, text))


def error_text(error: BaseException) -> str:
    """Return the text of an error of a library without secrets; the name of its class, if it has no text."""
    return redacted(str(error)) or type(error).__name__


def _spellings(value: str) -> Iterator[str]:
    for text in _parts(value):
        if len(text) >= LEAST:
            escaped = text.replace('"', '\\"'), text.replace("\n", "\\n"), quote(text, safe="")
            yield from (text, *escaped, b64encode(text.encode()).decode())


def _parts(value: str) -> Iterable[str]:
    """Return a value, and the lines of a PEM block that are secret by themselves."""
    value = value.strip()
    if "PRIVATE KEY-----" not in value:
        return (value,)
    lines = [line.strip() for line in value.splitlines()]
    return (value, *(line for line in lines if len(line) >= _PEM_LINE and not line.startswith("-")))
