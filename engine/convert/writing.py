"""Writes the text of a `mirror.yaml` with comments: what was changed, and what could not be carried, with reasons."""

import re
from collections.abc import Iterable, Iterator

from engine.convert.model import Carried, Dropped
from engine.convert.settling import Settled

_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_.\-]*(?:->[A-Za-z0-9_.\-]+)?|0|[1-9][0-9]{0,17}|-1")
_WORDS = re.compile(r"y|yes|n|no|on|off|null|~", re.IGNORECASE)
"""What YAML readers may take for something else than text; `true` and `false` mean the same to all."""
_PRINTABLE = re.compile(r"[\x20-\x7e\xa0-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff]*")
_WIDTH = 118


def write_yaml(kind: str, files: Iterable[str], settled: Settled) -> str:
    """Return the text of the new file; `kind` and `files` say what it was made of."""
    return "\n".join(_Writer(settled).lines(kind, list(files))) + "\n"


def quoted(text: str) -> str:
    """Return a text as YAML that every reader takes for this text, on one line."""
    if _PLAIN.fullmatch(text) and not _WORDS.fullmatch(text):
        return text
    if _PRINTABLE.fullmatch(text):
        return "'" + text.replace("'", "''") + "'"
    return '"' + "".join(map(_escaped, text)) + '"'


def _escaped(char: str) -> str:
    if char in '"\\':
        return f"\\{char}"
    if char == "\n":
        return "\\n"
    return char if _PRINTABLE.fullmatch(char) else f"\\u{ord(char):04x}"


class _Writer:
    def __init__(self, settled: Settled) -> None:
        self._settled = settled
        self._by_owner: dict[str, list[Carried]] = {}
        for setting in settled.settings.values():
            self._by_owner.setdefault(settled.owner(setting.key), []).append(setting)

    def lines(self, kind: str, files: list[str]) -> Iterator[str]:
        lost = [one for one in self._settled.dropped if not one.needless]
        yield from _comment(f"Made by `raymirror convert` from {kind}: {', '.join(files)}", "")
        yield from _comment("Check it against its clusters: raymirror check FILE", "")
        if lost:
            yield from _comment(f"NOT CARRIED: {len(lost)}, each named below with its reason", "")
        for note in self._settled.notes:
            yield from _comment(f"Note: {note.key}: {note.what}", "")
        yield from self._lost("", "")
        yield ""
        yield "clusters:"
        for alias in self._settled.aliases:
            yield from self._branch(alias)
        yield "flows:"
        for flow in self._settled.flows:
            yield from self._branch(flow)
        for setting in self._by_owner.get("", []):
            yield from self._setting(setting, setting.key, "")
        yield from self._needless()

    def _branch(self, owner: str) -> Iterator[str]:
        settings = self._by_owner.get(owner, [])
        yield f"  {quoted(owner)}:{'' if settings else ' {}'}"
        for setting in settings:
            yield from self._setting(setting, setting.key.removeprefix(f"{owner}."), "    ")
        yield from self._lost(owner, "    ")

    def _setting(self, setting: Carried, name: str, indent: str) -> Iterator[str]:
        if setting.why:
            yield from _comment(f"{setting.origin}: {setting.why}", indent)
        yield f"{indent}{quoted(name)}: {quoted(setting.value)}"

    def _lost(self, owner: str, indent: str) -> Iterator[str]:
        for one in self._settled.dropped:
            if not one.needless and self._settled.owner(one.near) == owner:
                yield from _comment(f"NOT CARRIED: {lost_text(one)}", indent)

    def _needless(self) -> Iterator[str]:
        reasons: dict[str, list[str]] = {}
        for one in self._settled.dropped:
            if one.needless:
                reasons.setdefault(one.why, []).append(one.origin.key)
        if reasons:
            yield ""
            yield from _comment("Not needed here, and nothing is lost:", "")
        for why, keys in reasons.items():
            yield from _comment(f"- {', '.join(dict.fromkeys(keys))}: {why}", "")


def lost_text(dropped: Dropped) -> str:
    """Return what was dropped, why, and what does it here."""
    right = f"; {dropped.instead}" if dropped.instead else ""
    return f"{dropped.origin}: {dropped.why}{right}"


def _comment(text: str, indent: str) -> Iterator[str]:
    """Yield a comment in lines of a bounded width; characters that are not printable become spaces."""
    clean = "".join(char if _PRINTABLE.fullmatch(char) else " " for char in text)
    line = f"{indent}#"
    for word in clean.split():
        if len(line) + 1 + len(word) > _WIDTH and line.strip() not in ("#", "#  "):
            yield line
            line = f"{indent}#  "
        line += f" {word}"
    yield line
