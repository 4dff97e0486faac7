"""Translates Java regular expressions of Kafka's configuration to Python.

Topic, group and config names are ASCII, so Java's character classes become their ASCII members.
"""

import re
from collections.abc import Iterable

_CLASSES = {
    "Alpha": "A-Za-z",
    "Digit": "0-9",
    "Alnum": "A-Za-z0-9",
    "Upper": "A-Z",
    "Lower": "a-z",
    "XDigit": "0-9A-Fa-f",
    "Punct": r"!-/:-@\[-`{-~",
    "L": "A-Za-z",
    "Lu": "A-Z",
    "Ll": "a-z",
    "N": "0-9",
    "Nd": "0-9",
    "IsAlphabetic": "A-Za-z",
    "IsDigit": "0-9",
    "IsLatin": "A-Za-z",
    "IsLowercase": "a-z",
    "IsUppercase": "A-Z",
    "ASCII": r"\x00-\x7f",
    "Blank": r" \t",
    "Graph": "!-~",
    "Print": " -~",
    "Space": r" \t-\r",
}
_NAMED_CLASS = re.compile(r"\\([pP])(?:\{(\w+)\}|(\w))")
_COUNT = re.compile(r"\{\d+(?:,\d*)?\}")
_FLAGS = re.compile(r"\(\?([idmsuxU]*)\)")
_PYTHON_FLAGS = {"i": "i", "m": "m", "s": "s", "d": "", "u": "", "U": ""}
_NO_COUNTERPART = "GRXNKhHV0"
_REFERENCE = re.compile(r"\\k<([A-Za-z][A-Za-z0-9]*)>")
_GROUP = re.compile(r"\(\?(?:[:=!>]|<[=!]|[a-z]*(?:-[a-z]+)?:|<[A-Za-z][A-Za-z0-9]*>)")
_CLASS_LETTERS = tuple("dDwWsS")
_SET_OPERATORS = "&|~"


class BadPattern(ValueError):
    """A pattern that cannot be used, and why."""

    def __init__(self, pattern: str, why: str) -> None:
        super().__init__(pattern, why)
        self.pattern, self.why = pattern, why

    def __str__(self) -> str:
        return f"pattern {self.pattern!r}: {self.why}"


class PatternList:
    """A list of Java patterns of which one must match a whole name; an empty list matches nothing.

    MM2 joins the list with `|` without parentheses, so a flag such as `(?i)` at the start of one pattern holds for all
    patterns after it. Raises BadPattern.
    """

    def __init__(self, patterns: Iterable[str]) -> None:
        self.patterns = tuple(patterns)
        whole = "|".join(self.patterns)
        try:
            text = _translate_each(self.patterns)
        except BadPattern:
            if not _compiles(whole):
                raise
            text = translate(whole)  # one pattern that was split at its commas: `(a,b)` means `(a|b)` in MM2
        try:
            self._compiled = re.compile(text) if self.patterns else None
        except re.error as error:  # each compiles alone, but two of them use one group name
            raise BadPattern(whole, str(error)) from None

    def matches(self, name: str) -> bool:
        """Whether one of the patterns matches the whole name."""
        return self._compiled is not None and self._compiled.fullmatch(name) is not None


def translate(pattern: str) -> str:
    """Turn a Java regex into a Python one. Raises BadPattern for what does not compile or has no counterpart."""
    return _translate(pattern, "")[0]


def literal(pattern: str) -> str | None:
    """Return the single name that a pattern means; None if it means several; a bare dot counts as a dot."""
    plain = re.sub(r"\\([^\w\s])", r"\1", pattern)
    return plain if re.fullmatch(r"[\w.\-]+", plain) and not re.search(r"\\\w", pattern) else None


def _translate_each(patterns: Iterable[str]) -> str:
    parts, flags = [], ""
    for pattern in patterns:
        part, flags = _translate(pattern, flags)
        parts.append(part)
    return "|".join(parts)


def _compiles(pattern: str) -> bool:
    try:
        translate(pattern)
    except BadPattern:
        return False
    return True


def _translate(pattern: str, flags: str) -> tuple[str, str]:
    """Return one pattern in Python's syntax, in its own group, and the flags that hold after it."""
    body = pattern
    while head := _FLAGS.match(body):
        if "x" in head[1]:
            raise BadPattern(pattern, "the flag x (comments) is not supported; remove it")
        flags += "".join(_PYTHON_FLAGS[flag] for flag in head[1] if _PYTHON_FLAGS[flag] not in flags)
        body = body[head.end() :]
    text = _Scanner(pattern, body).text()
    try:
        re.compile(text)
    except (re.error, OverflowError) as error:
        raise BadPattern(pattern, str(error)) from None
    return f"(?{flags}:{text})", flags


class _Scanner:
    """Reads a Java pattern once, construct by construct."""

    def __init__(self, pattern: str, body: str) -> None:
        self._pattern, self._body = pattern, body
        self._at = 0

    def text(self) -> str:
        """Return the Python pattern. Raises BadPattern."""
        out: list[str] = []
        while self._at < len(self._body):
            match self._body[self._at]:
                case "\\":
                    out.append(self._escape(inside=False))
                case "[":
                    out.append(self._class())
                case "(":
                    out.append(self._group())
                case "{":
                    out.append(self._count())
                case char:
                    out.append(self._take(char))
        return "".join(out)

    def _take(self, text: str) -> str:
        self._at += len(text)
        return text

    def _bad(self, why: str) -> BadPattern:
        return BadPattern(self._pattern, why)

    def _escape(self, *, inside: bool) -> str:
        rest = self._body[self._at :]
        if rest.startswith(r"\Q"):
            quoted, end, _ = rest[2:].partition(r"\E")
            if not end:
                raise self._bad(r"\Q without \E quotes the rest of the list; close it")
            self._take(rest[: len(quoted) + 4])
            return re.escape(quoted)
        if named := _NAMED_CLASS.match(rest):
            return self._named_class(named, inside=inside)
        if rest[1:2] and rest[1] in _NO_COUNTERPART:
            raise self._bad(rf"Java's \{rest[1]} has no counterpart here; list the characters")
        if not inside and (reference := _REFERENCE.match(rest)):
            self._take(reference[0])
            return f"(?P={reference[1]})"
        self._take(rest[:2])
        if inside and rest[1:2] in _CLASS_LETTERS and re.match(r"-[^\]]", rest[2:]):
            self._take("-")  # no range starts with a class: Java reads a hyphen here, Python an error
            return rf"{rest[:2]}\-"
        return r"\Z" if rest[:2] == r"\z" else rest[:2]

    def _named_class(self, named: re.Match[str], *, inside: bool) -> str:
        name = named[2] or named[3]
        members = _CLASSES.get(name)
        if members is None:
            raise self._bad(rf"\p{{{name}}} is not known; use one of {', '.join(_CLASSES)}")
        negated = named[1] == "P"
        if inside and negated:
            raise self._bad(rf"\P{{{name}}} inside [...] has no counterpart; list the characters")
        self._take(named[0])
        return members if inside else f"[{'^' if negated else ''}{members}]"

    def _class(self) -> str:
        out = [self._take("[^" if self._body.startswith("[^", self._at) else "[")]
        first = True
        while (rest := self._body[self._at :]) and (first or rest[0] != "]"):
            first = False
            if rest[0] == "[":
                raise self._bad("a [...] inside [...] is Java's union, which has no counterpart; list the characters")
            if rest.startswith("&&"):
                raise self._bad("&& inside [...] is Java's intersection, which has no counterpart; list the characters")
            if rest[0] == "\\":
                out.append(self._escape(inside=True))
            else:
                char = self._take(rest[0])
                out.append(f"\\{char}" if char in _SET_OPERATORS or rest.startswith("--") else char)
        return "".join([*out, self._take(rest[:1])])

    def _group(self) -> str:
        rest = self._body[self._at :]
        if re.match(r"\(\?[a-zA-Z]*-?[a-zA-Z]+\)", rest):
            raise self._bad("a flag is not at the start of the pattern; put it first, or write (?i:...)")
        if rest.startswith("(?") and not _GROUP.match(rest):
            raise self._bad("Java has no group that starts like this")
        if re.match(r"\(\?<[A-Za-z]", rest):
            self._take("(?<")
            return "(?P<"
        return self._take("(")

    def _count(self) -> str:
        found = _COUNT.match(self._body, self._at)
        if found is None:
            raise self._bad("{ does not start {m} or {m,n}; a list is split at every comma, so write {m,n} out")
        return self._take(found[0])
