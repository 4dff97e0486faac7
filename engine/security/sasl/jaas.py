"""Reads `sasl.jaas.config` as Kafka's clients read it (JaasConfig on Java's StreamTokenizer).

A value is `MODULE FLAG NAME=VALUE ... ;`. What StreamTokenizer takes for a number, a comment or a lone sign is no
value, so such a value needs quotes. Errors repeat no word of the text, except names from a table: a misplaced word may
be a password.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple, NoReturn

from engine.security.settings import BadSecurity

JAAS = "sasl.jaas.config"
FLAGS = ("required", "requisite", "sufficient", "optional")
_WORD, _QUOTED, _NUMBER, _END = "word", "quoted", "number", ""
_QUOTES, _SIGNS = "\"'", "-_$"
_ESCAPES = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_OCTAL = "01234567"
_CONTROL = re.compile(r"[\x00-\x1f]")
_FORM = 'MODULE required NAME="VALUE" ... ;'
_QUOTE = (
    'put each value in double quotes, with \\" for a quote and \\\\ for a backslash inside; a properties file wants'
    " every backslash twice"
)
_NAMED = (
    "username",
    "password",
    "serviceName",
    "principal",
    "keyTab",
    "ticketCache",
    "tokenauth",
    "clientId",
    "clientSecret",
    "scope",
    "awsProfileName",
    "awsRoleArn",
    "oauth.client.id",
    "oauth.client.secret",
    "oauth.token.endpoint.uri",
    "extension_logicalCluster",
    "extension_identityPoolId",
)
"""Options that an error may name."""


class LoginEntry(NamedTuple):
    """One login module of a value: its class, its control flag in lower case, and its options."""

    module: str
    flag: str
    options: dict[str, str]

    @property
    def name(self) -> str:
        """The class without its package."""
        return self.module.rpartition(".")[2]

    def __repr__(self) -> str:
        return f"LoginEntry({len(self.options)} options)"


class _Token(NamedTuple):
    kind: str
    """`word`, `quoted`, `number`, empty for the end, else a sign."""
    text: str = ""

    @property
    def is_text(self) -> bool:
        return self.kind in (_WORD, _QUOTED)


def parse_jaas(text: str) -> tuple[LoginEntry, ...]:
    """Return the login modules of a value. Raises BadSecurity, which names no secret."""
    tokens = _tokens(text)
    found: list[LoginEntry] = []
    while (first := next(tokens)).kind != _END:
        found.append(_entry(first, tokens))
    if not found:
        raise BadSecurity(JAAS, "names no login module", f"write {_FORM}")
    return tuple(found)


def one_login(text: str) -> LoginEntry:
    """Return the only login module of a value (Kafka: JaasContext). Raises BadSecurity."""
    found = parse_jaas(text)
    if len(found) > 1:
        raise BadSecurity(JAAS, f"has {len(found)} login modules", "Kafka's clients take one: remove the others")
    return found[0]


def jaas_text(module: str, options: Mapping[str, str]) -> str:
    """Return the value for one login module, as Java reads it."""
    said = "".join(f' {name}="{_escape(value)}"' for name, value in options.items())
    return f"{module} required{said};"


def _escape(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return _CONTROL.sub(lambda found: f"\\{ord(found[0]):03o}", escaped)


def _entry(first: _Token, tokens: Iterator[_Token]) -> LoginEntry:
    if not first.is_text:
        _refuse("does not begin with a login module", f"write {_FORM}")
    flag = next(tokens)
    if flag.kind == "{":
        _refuse("has the section of a JAAS file", "write only what is between its braces")
    if flag.text.lower() not in FLAGS:
        _refuse(f"has none of {', '.join(FLAGS)} behind the login module", f"write {_FORM}")
    options: dict[str, str] = {}
    last = "the control flag"
    while (token := next(tokens)).kind != ";":
        name = token.text if token.is_text else ""
        if token.kind == _END:
            _refuse("has no ; at its end", "write a ; after the last option, as Kafka's clients require")
        if not name or next(tokens).kind != "=":
            _refuse(f"has something behind {last} that is not NAME=VALUE", _QUOTE)
        last = name if name in _NAMED else f"option {len(options) + 1}"
        value = next(tokens)
        if not value.is_text:
            why = "begins with a digit, which Java reads as a number" if value.kind == _NUMBER else "is missing"
            _refuse(f"the value of {last} {why}", _QUOTE)
        options[name] = value.text
    return LoginEntry(first.text, flag.text.lower(), options)


def _refuse(wrong: str, right: str) -> NoReturn:
    raise BadSecurity(JAAS, wrong, right)


def _tokens(text: str) -> Iterator[_Token]:
    """Yield the tokens as StreamTokenizer does, with Kafka's word characters; at the end, endless ends."""
    at = 0
    while at < len(text):
        char = text[at]
        if char <= " ":
            at += 1
        elif char == "/":
            at = _behind_comment(text, at)
        elif char in _QUOTES:
            value, at = _quoted(text, at)
            yield _Token(_QUOTED, value)
        elif _starts_number(text, at):
            at = _behind(text, at + 1, lambda one: one.isascii() and (one.isdigit() or one == "."))
            yield _Token(_NUMBER)
        elif _is_word(char) and char != "-":
            end = _behind(text, at, _is_word)
            yield _Token(_WORD, text[at:end])
            at = end
        else:
            yield _Token(char)
            at += 1
    while True:
        yield _Token(_END)


def _is_word(char: str) -> bool:
    """Whether a character may stand in a word: StreamTokenizer's own letters, digits and dots, and Kafka's signs."""
    return (char.isascii() and char.isalnum()) or char == "." or char in _SIGNS or char >= "\xa0"


def _starts_number(text: str, at: int) -> bool:
    char, behind = text[at], text[at + 1 : at + 2]
    return char in "0123456789." or (char == "-" and behind != "" and behind in "0123456789.")


def _behind(text: str, at: int, fits: Callable[[str], bool]) -> int:
    """Return the end of the characters that fit."""
    while at < len(text) and fits(text[at]):
        at += 1
    return at


def _behind_comment(text: str, at: int) -> int:
    """Return where a comment ends: that of `/*` at `*/`, any other one, also of a lone slash, with its line."""
    if text.startswith("/*", at):
        end = text.find("*/", at + 2)
        return len(text) if end < 0 else end + 2
    return next((end for end in range(at, len(text)) if text[end] in "\r\n"), len(text))


def _quoted(text: str, at: int) -> tuple[str, int]:
    """Return a quoted value and the place behind it. Raises BadSecurity: Java would end it with its line."""
    quote = text[at]
    found: list[str] = []
    at += 1
    while at < len(text) and text[at] not in "\r\n":
        char = text[at]
        if char == quote:
            return "".join(found), at + 1
        if char == "\\":
            char, at = _escaped(text, at + 1)
        else:
            at += 1
        found.append(char)
    _refuse("has a quote that is not closed", _QUOTE)


def _escaped(text: str, at: int) -> tuple[str, int]:
    """Return the character behind a backslash, which may have up to three octal digits, and the place behind it."""
    if at == len(text):
        _refuse("has a quote that is not closed", _QUOTE)
    if text[at] not in _OCTAL:
        return _ESCAPES.get(text[at], text[at]), at + 1
    most = 3 if text[at] <= "3" else 2
    end = at + 1
    while end < min(len(text), at + most) and text[end] in _OCTAL:
        end += 1
    return chr(int(text[at:end], 8)), end
