"""Plans the ACLs of copies: which bindings of the source get a counterpart on the target, and under which name.

    binding of the source                      | on the target
    -------------------------------------------+--------------------------------------------------------------
    ALLOW WRITE on a topic                     | nothing: only the mirror writes there
    ALLOW ALL on a topic                       | ALLOW READ
    any other on a topic, literal, copied      | the same, on the copy's name
    on a topic that is not copied              | nothing
    on `*`, copies keep their names            | the same, if `topics` matches everything
    on `*`, copies have a prefix               | with the option: on the prefix; else nothing, and a report
    on a prefix of topics                      | with the option, if a copied topic has it; else nothing, and a report
    on a consumer group                        | with the option, if the group is mirrored: the same

Raymirror only adds bindings: a binding that is removed on the source stays on the target, as with MM2.
"""

from bisect import bisect_left
from collections.abc import Collection, Iterable, Sequence
from enum import IntEnum
from typing import NamedTuple

import msgspec

from policies.groups import GroupSelection
from policies.selection import TopicSelection

WILDCARD = "*"
_PREFIXED_ONLY = "prefixed patterns are mirrored only with raymirror.sync.acls.prefixed = true"


class Resource(IntEnum):
    """The members of Kafka's ResourceType that raymirror reads; transactional ids are not mirrored."""

    TOPIC = 2
    GROUP = 3
    TRANSACTIONAL_ID = 5


class Pattern(IntEnum):
    """Kafka's PatternType of a binding."""

    LITERAL = 3
    PREFIXED = 4


class Permission(IntEnum):
    """Kafka's AclPermissionType."""

    DENY = 2
    ALLOW = 3


class Operation(IntEnum):
    """Kafka's AclOperation."""

    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14
    TWO_PHASE_COMMIT = 15


class Binding(NamedTuple):
    """One ACL binding; numbers are Kafka's codes, and an unknown code stays a number."""

    resource: int
    name: str
    pattern: int
    principal: str
    host: str
    operation: int
    permission: int

    def __str__(self) -> str:
        kind = "prefix " if self.pattern == Pattern.PREFIXED else ""
        what = f"{_word(Permission, self.permission)} {_word(Operation, self.operation)}"
        where = f"{_word(Resource, self.resource).lower()} {kind}{self.name!r}"
        return f"{what} on {where} for {self.principal} from {self.host}"


def _word(kind: type[IntEnum], code: int) -> str:
    try:
        return kind(code).name
    except ValueError:
        return str(code)


class AddAcl(msgspec.Struct, frozen=True, kw_only=True, tag_field="change", tag="add_acl"):
    """Add a binding to the target; `because`: the binding of the source."""

    binding: Binding
    because: Binding


class KeptAcl(msgspec.Struct, frozen=True, kw_only=True):
    """A binding of the source for copied topics without a counterpart on the target, and why."""

    binding: Binding
    why: str


class AclRules(msgspec.Struct, frozen=True, kw_only=True):
    """The copied topics and raymirror's options: `prefixed` patterns too, and groups if `groups` is not None."""

    selection: TopicSelection
    prefixed: bool = False
    groups: GroupSelection | None = None


class AclPlan(msgspec.Struct, frozen=True, kw_only=True):
    """The bindings to add, denials first, and the bindings without a counterpart."""

    changes: tuple[AddAcl, ...] = ()
    left: tuple[KeptAcl, ...] = ()


def plan_acls(
    source: Iterable[Binding], target: Collection[Binding], rules: AclRules, copied: Collection[str]
) -> AclPlan:
    """Plan the bindings of the target; `copied`: the source topics that the flow copies now."""
    wanted: dict[Binding, Binding] = {}
    left: list[KeptAcl] = []
    topics = sorted(copied)
    for binding in sorted(source):
        found = _counterpart(binding, rules, topics)
        if isinstance(found, Binding):
            wanted.setdefault(found, binding)
        elif found:
            left.append(KeptAcl(binding=binding, why=found))
    missing = sorted(wanted.keys() - target, key=lambda binding: (binding.permission != Permission.DENY, binding))
    return AclPlan(
        changes=tuple(AddAcl(binding=binding, because=wanted[binding]) for binding in missing), left=tuple(left)
    )


def _counterpart(binding: Binding, rules: AclRules, topics: Sequence[str]) -> Binding | str:
    """Return the counterpart of a binding, or why it has none; empty if it concerns no copied topic.

    `topics`: those that are copied, in order.
    """
    if binding.resource == Resource.GROUP:
        return _of_group(binding, rules)
    if binding.resource != Resource.TOPIC:
        return ""
    place = _place(binding, rules, topics)
    if isinstance(place, str):
        return place
    if binding.permission == Permission.ALLOW and binding.operation == Operation.WRITE:
        return "only the mirror writes to copies"
    name, pattern = place
    reads_only = binding.permission == Permission.ALLOW and binding.operation == Operation.ALL
    operation = int(Operation.READ) if reads_only else binding.operation
    return binding._replace(name=name, pattern=int(pattern), operation=operation)


def _place(binding: Binding, rules: AclRules, topics: Sequence[str]) -> tuple[str, Pattern] | str:
    """Return name and pattern on the target, or why there is no counterpart."""
    selection = rules.selection
    if binding.pattern == Pattern.PREFIXED:
        if not _has_prefix(topics, binding.name):
            return ""
        if not rules.prefixed:
            return _PREFIXED_ONLY
        return selection.target_topic(binding.name), Pattern.PREFIXED
    if binding.pattern != Pattern.LITERAL:
        return f"pattern type {binding.pattern} is unknown"
    if binding.name != WILDCARD:
        return (selection.target_topic(binding.name), Pattern.LITERAL) if selection.wants(binding.name) else ""
    if selection.target_topic(WILDCARD) == WILDCARD:
        return (WILDCARD, Pattern.LITERAL) if selection.wants(WILDCARD) else "topics does not match everything"
    if rules.prefixed:
        return selection.target_topic(""), Pattern.PREFIXED
    return "all copies are a prefix on the target: mirrored only with raymirror.sync.acls.prefixed = true"


def _has_prefix(topics: Sequence[str], prefix: str) -> bool:
    """Whether one of some topics, in order, begins with a prefix: the first that is not before it would."""
    at = bisect_left(topics, prefix)
    return at < len(topics) and topics[at].startswith(prefix)


def _of_group(binding: Binding, rules: AclRules) -> Binding | str:
    if rules.groups is None:
        return ""
    if binding.pattern == Pattern.PREFIXED:
        return binding if rules.prefixed else _PREFIXED_ONLY
    return binding if rules.groups.wants(binding.name) else ""
