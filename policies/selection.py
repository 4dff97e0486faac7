"""Which topics a flow copies: MM2's filter, what it never copies, and cycles."""

import re
from collections.abc import Iterable, Mapping

from policies.model import FlowName
from policies.naming import DefaultNaming, IdentityNaming

DEFAULT_TOPICS = (".*",)
DEFAULT_EXCLUDE = (r".*[\-\.]internal", r".*\.replica", r"__.*")

_QUOTED = re.compile(r"\\Q(.*?)(?:\\E|$)", re.DOTALL)
_JAVA_CLASSES = {
    r"\p{Alpha}": "[A-Za-z]",
    r"\p{Digit}": "[0-9]",
    r"\p{Alnum}": "[A-Za-z0-9]",
    r"\p{Upper}": "[A-Z]",
    r"\p{Lower}": "[a-z]",
    r"\p{Punct}": r"[!-/:-@\[-`{-~]",
}


class BadPattern(ValueError):
    """A topic pattern that cannot be used: the pattern and why."""

    def __init__(self, pattern: str, why: str) -> None:
        super().__init__(pattern, why)
        self.pattern, self.why = pattern, why

    def __str__(self) -> str:
        return f"pattern {self.pattern!r}: {self.why}"


def translate(pattern: str) -> str:
    """Turn a Java regex into a Python one. Raises BadPattern for what does not compile or has no counterpart."""
    text = _QUOTED.sub(lambda found: re.escape(found.group(1)), pattern)
    for java, python in _JAVA_CLASSES.items():
        text = text.replace(java, python)
    if "&&[" in text or re.search(r"\[[^\]]*&&", text):
        raise BadPattern(pattern, "the Java-only class intersection && has no counterpart; list the characters")
    if re.search(r"\\[pP]\{", text):
        raise BadPattern(pattern, r"only \p{Alpha|Digit|Alnum|Upper|Lower|Punct} of Java's \p{...} classes are known")
    try:
        re.compile(text)
    except re.error as error:
        raise BadPattern(pattern, str(error)) from None
    return text


def joined(patterns: Iterable[str]) -> re.Pattern[str] | None:
    """Return one pattern for a list, None for an empty list, which matches nothing."""
    parts = [f"(?:{translate(pattern)})" for pattern in patterns]
    return re.compile("|".join(parts)) if parts else None


class TopicSelection:
    """The topics of one flow. Raises BadPattern."""

    def __init__(
        self,
        flow: FlowName,
        naming: DefaultNaming,
        include: Iterable[str] = DEFAULT_TOPICS,
        exclude: Iterable[str] = DEFAULT_EXCLUDE,
        *,
        heartbeats: bool = True,
    ) -> None:
        self._flow = flow
        self._naming = naming
        self._include = joined(include)
        self._exclude = joined(exclude)
        self._heartbeats = heartbeats

    def wants(self, topic: str) -> bool:
        """Whether the flow copies a source topic."""
        return self.why_not(topic) is None

    def why_not(self, topic: str) -> str | None:
        """Return why a topic is not copied, None for one that is."""
        if self._naming.is_internal_topic(topic):
            return "internal topic"
        if self.is_cycle(topic):
            return f"it came from {self._flow.target}"
        if self._heartbeats and self._naming.is_heartbeats_topic(topic):
            return None
        if self._include is None or not self._include.fullmatch(topic):
            return "not in topics"
        if self._exclude is not None and self._exclude.fullmatch(topic):
            return "in topics.exclude"
        return None

    def is_cycle(self, topic: str) -> bool:
        """Whether a topic has been on the target already, at any hop (mm2-contract 4.1)."""
        source = self._naming.topic_source(topic)
        if source is None:
            return False
        if source == self._flow.target:
            return True
        upstream = self._naming.upstream_topic(topic)
        return upstream is not None and upstream != topic and self.is_cycle(upstream)


def colliding_targets(wanted: Mapping[FlowName, Mapping[str, str]]) -> list[tuple[str, str, FlowName, FlowName]]:
    """Return (target alias, target topic, one flow, another flow) for every target topic that two flows write.

    `wanted` maps each flow to its source topics and their target names.
    """
    owners: dict[tuple[str, str], FlowName] = {}
    found: list[tuple[str, str, FlowName, FlowName]] = []
    for flow, topics in wanted.items():
        for target in topics.values():
            other = owners.setdefault((flow.target, target), flow)
            if other != flow:
                found.append((flow.target, target, other, flow))
    return found


def identity_loop(namings: Mapping[FlowName, DefaultNaming]) -> tuple[str, ...] | None:
    """Return the clusters of a loop made of identity-named flows only, None where there is none.

    Names do not tell where a record came from there, so a loop would copy its own copies for ever.
    """
    edges: dict[str, list[str]] = {}
    for flow, naming in namings.items():
        if isinstance(naming, IdentityNaming):
            edges.setdefault(flow.source, []).append(flow.target)
    for start in edges:
        loop = _path_back(edges, start, (start,))
        if loop is not None:
            return loop
    return None


def _path_back(edges: Mapping[str, list[str]], start: str, path: tuple[str, ...]) -> tuple[str, ...] | None:
    for after in edges.get(path[-1], []):
        if after == start:
            return (*path, start)
        if after not in path:
            found = _path_back(edges, start, (*path, after))
            if found is not None:
                return found
    return None
