r"""Changes some settings in the text of a `.properties` file; everything else stays as it is, comments too.

The text is ISO-8859-1, one character for each byte of the file, so bytes that it does not change come back the same.
"""

import re
from collections.abc import Mapping

from engine.config.file.properties import key_of

_LINE = re.compile(r"[^\r\n]*(?:\r\n|\r|\n|\Z)")
_ESCAPED = {"\t": "\\t", "\n": "\\n", "\r": "\\r", "\f": "\\f", "\\": "\\\\"}
_IN_KEYS = "=: #!"


def with_settings(text: str, changes: Mapping[str, str | None]) -> str:
    """Return a text with some keys set; None removes one. A new key goes to the end."""
    end = "\r\n" if "\r\n" in text else "\n"
    left, out = dict(changes), list[str]()
    done: set[str] = set()
    for raw, line in _settings(text):
        key = key_of(line) if line else None
        if key is None or key not in changes:
            out.append(raw)
            continue
        if key not in done and (value := left.pop(key, None)) is not None:
            out.append(written(key, value) + raw[len(raw.rstrip("\r\n")) :])
        done.add(key)  # a later line with the same key would win, so it goes
    added = [f"{written(key, value)}{end}" for key, value in left.items() if value is not None]
    return "".join(out) + (_joint(out[-1], end) if added and out else "") + "".join(added)


def _joint(last: str, end: str) -> str:
    """Return what must be between the last line and a new one: an end, and a blank line if the last one continues."""
    bare = last.rstrip("\r\n")
    continues = (len(bare) - len(bare.rstrip("\\"))) % 2
    own = "\r" if last.endswith("\r") else end  # a line feed behind a carriage return would be no line of its own
    return own * ((bare == last) + continues)


def written(key: str, value: str) -> str:
    """Return the line that sets a key, without its end."""
    return f"{_escaped(key, _IN_KEYS)} = {_escaped(value[:1], ' ')}{_escaped(value[1:], '')}"


def _escaped(text: str, also: str) -> str:
    return "".join(_escape(char, also) for char in text)


def _escape(char: str, also: str) -> str:
    if char in _ESCAPED:
        return _ESCAPED[char]
    if char in also:
        return f"\\{char}"
    if " " <= char <= "~":
        return char
    data = char.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{data[at : at + 2].hex()}" for at in range(0, len(data), 2))


def _settings(text: str) -> list[tuple[str, str]]:
    """Divide a text into settings with all their lines, and other lines one by one; add the setting's joined line."""
    found: list[tuple[str, str]] = []
    raw = held = ""
    for match in _LINE.finditer(text):
        if not match[0]:
            continue
        line = match[0].rstrip("\r\n").lstrip(" \t\f")
        if not raw and (not line or line[0] in "#!"):
            found.append((match[0], ""))
            continue
        raw += match[0]
        if (len(line) - len(line.rstrip("\\"))) % 2:
            held += line[:-1]
            continue
        found.append((raw, held + line))
        raw = held = ""
    return [*found, (raw, held)] if raw else found
