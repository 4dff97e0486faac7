"""Finds what applications would miss on the target after a failover: rights, topics to write to, replicas, sizes.

    an ALLOW of the source              | applications need on the target
    ------------------------------------+--------------------------------------------------------------
    Write on a topic that is copied     | Write on the topic of the same name: they write to no prefix
    Read on a topic that is copied      | Read on its copy
    Read on a group that is mirrored    | the same
    Write on a transactional id         | the same
    All                                 | each of these

Rights that a DENY of the source takes away are not needed. A right on a prefix counts as one right. What an authorizer
grants without ACLs (`super.users`, `allow.everyone.if.no.acl.found`) no client can read.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from enum import Enum

import msgspec

from policies.groups import GroupSelection
from policies.selection import TopicSelection
from policies.sync.acl_sync import WILDCARD, Binding, Operation, Pattern, Permission, Resource
from policies.words import counted

_ANYBODY = "User:*"


class UnreadyName(Enum):
    """What is missing; the names are stable."""

    RIGHT = "right-missing"
    DENIED = "right-denied"
    NO_TOPIC = "no-topic"
    REPLICAS = "too-few-replicas"
    SIZE = "smaller-messages"


class Unready(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that applications would miss: its subject (a principal or a topic), and a sentence."""

    name: UnreadyName
    subject: str
    why: str


class WrittenTopic(msgspec.Struct, frozen=True, kw_only=True):
    """A topic that applications write to, on one cluster; `replicas` 0: not known."""

    replicas: int
    min_insync: int
    max_bytes: int


# --- topics ----------------------------------------------------------------------------------------------------------


def unready_topics(source: Mapping[str, WrittenTopic], target: Mapping[str, WrittenTopic]) -> list[Unready]:
    """Compare the topics that applications write to now with those of the same name on the target."""
    found: list[Unready] = []
    for topic, here in sorted(source.items()):
        there = target.get(topic)
        if there is None:
            why = "the target has no topic of this name for producers; it is created when one writes, if brokers may"
            found.append(Unready(name=UnreadyName.NO_TOPIC, subject=topic, why=why))
            continue
        if 0 < there.replicas < there.min_insync:
            why = f"min.insync.replicas is {there.min_insync}, and it has {counted(there.replicas, 'replica')}"
            found.append(Unready(name=UnreadyName.REPLICAS, subject=topic, why=f"{why}: acks=all is refused"))
        if there.max_bytes < here.max_bytes:
            why = f"max.message.bytes is {there.max_bytes}, and {here.max_bytes} on the source"
            found.append(Unready(name=UnreadyName.SIZE, subject=topic, why=why))
    return found


# --- rights ----------------------------------------------------------------------------------------------------------


class ClientRules(msgspec.Struct, frozen=True, kw_only=True):
    """Whose rights count: those on topics and groups that the flow copies; `copied`: the source topics."""

    selection: TopicSelection
    groups: GroupSelection
    copied: frozenset[str]


def unready_rights(source: Collection[Binding], target: Collection[Binding], rules: ClientRules) -> list[Unready]:
    """Return the rights that the source grants and the target does not, each once."""
    needed = dict.fromkeys(
        need
        for binding in sorted(source)
        if binding.permission == Permission.ALLOW
        for want, need in _needs(binding, rules)
        if not _deniers(want, source)
    )
    return [unready for need in needed if (unready := _missing(need, target)) is not None]


def _missing(need: Binding, target: Iterable[Binding]) -> Unready | None:
    bindings = list(target)
    if not any(one.permission == Permission.ALLOW and _applies(one, need) for one in bindings):
        return Unready(name=UnreadyName.RIGHT, subject=need.principal, why=f"the target lacks: {need}")
    denied = _deniers(need, bindings)
    if denied:
        return Unready(name=UnreadyName.DENIED, subject=need.principal, why=f"the target has: {denied[0]}")
    return None


def _deniers(need: Binding, bindings: Iterable[Binding]) -> list[Binding]:
    return sorted(one for one in bindings if one.permission == Permission.DENY and _applies(one, need))


def _applies(binding: Binding, need: Binding) -> bool:
    """Whether a binding covers all of a right."""
    return (
        binding.resource == need.resource
        and binding.principal in (need.principal, _ANYBODY)
        and binding.host in (need.host, WILDCARD)
        and binding.operation in (need.operation, Operation.ALL)
        and _covers(binding, need)
    )


def _covers(binding: Binding, need: Binding) -> bool:
    if binding.pattern == Pattern.PREFIXED:
        return need.name != WILDCARD and need.name.startswith(binding.name)
    if binding.pattern != Pattern.LITERAL:
        return False
    return binding.name == WILDCARD or (binding.name == need.name and need.pattern == Pattern.LITERAL)


def _needs(binding: Binding, rules: ClientRules) -> Iterator[tuple[Binding, Binding]]:
    """Yield each right that a binding grants on the source, with the right that it stands for on the target."""
    if binding.resource == Resource.TOPIC:
        if _is_copied(binding, rules):
            yield from _each(binding, Operation.WRITE, binding)
            yield from _each(binding, Operation.READ, _on_copies(binding, rules.selection))
    elif binding.resource == Resource.GROUP:
        if binding.pattern != Pattern.LITERAL or binding.name == WILDCARD or rules.groups.wants(binding.name):
            yield from _each(binding, Operation.READ, binding)
    else:
        yield from _each(binding, Operation.WRITE, binding)


def _each(binding: Binding, operation: Operation, there: Binding) -> Iterator[tuple[Binding, Binding]]:
    if binding.operation in (operation, Operation.ALL):
        yield binding._replace(operation=int(operation)), there._replace(operation=int(operation))


def _is_copied(binding: Binding, rules: ClientRules) -> bool:
    if binding.pattern == Pattern.PREFIXED:
        return any(topic.startswith(binding.name) for topic in rules.copied)
    return binding.pattern == Pattern.LITERAL and (binding.name == WILDCARD or binding.name in rules.copied)


def _on_copies(binding: Binding, selection: TopicSelection) -> Binding:
    """Return the binding on the copies of its topics."""
    if binding.name != WILDCARD:
        return binding._replace(name=selection.target_topic(binding.name))
    if selection.target_topic(WILDCARD) == WILDCARD:
        return binding
    return binding._replace(name=selection.target_topic(""), pattern=int(Pattern.PREFIXED))
