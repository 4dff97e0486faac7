"""Plans the fence of producers on a cluster: which ACL bindings keep applications from writing to some topics.

    who may write to a topic                         | the fence
    -------------------------------------------------+---------------------------------------------------------------
    a principal, by an ALLOW of Write or All         | DENY Write for it, on the topic alone, from every host
    raymirror's own principal                        | nothing: the reverse flow writes there
    everybody, by an ALLOW for User:*                | DENY Write for the named principals; refused if none is named
    everybody, because no ACL covers the topic       | ALLOW All for User:*, then DENY Write for the named principals;
      and allow.everyone.if.no.acl.found is true     |   only if the operator says that this is how the cluster is set
    nobody (no ACL covers it, and that is false)     | nothing
    super users                                      | nothing: they pass every DENY

A DENY wins over every ALLOW, and it takes away nothing else: a principal that reads and describes goes on with that. An
open transaction can still be ended, because that needs no right on the topic. The first ACL of a topic ends
`allow.everyone.if.no.acl.found` for it, for everybody and every operation: hence the ALLOW, which comes first and goes
last. Source: Kafka's StandardAuthorizerData (findAclRule, MatchingRuleBuilder) and AclAuthorizer.
"""

from collections.abc import Collection, Iterable
from enum import Enum

import msgspec

from policies.dr.advice import EVERYONE_ALLOWED, OWN_PRINCIPAL, PRINCIPAL
from policies.sync.acl_sync import WILDCARD, Binding, Operation, Pattern, Permission, Resource
from policies.words import counted, named

ANYBODY = "User:*"


class EveryoneRule(Enum):
    """Whether whoever has no ACL may do everything with a topic without ACLs (`allow.everyone.if.no.acl.found`)."""

    NO = "no"
    UNKNOWN = "unknown"
    YES = "yes"


class FenceRefusal(Enum):
    """Why a fence is refused; the names are stable."""

    OWN_UNKNOWN = "own-principal-unknown"
    OWN_NAMED = "own-principal-named"
    EVERYBODY = "everybody-may-write"
    LOCKS_OUT = "first-acl-locks-out"
    NOT_PRINCIPAL = "not-a-principal"


class RefusedFence(msgspec.Struct, frozen=True):
    """A refusal and its sentence."""

    name: FenceRefusal
    why: str


class FenceRow(msgspec.Struct, frozen=True):
    """A binding of a fence, as an operation stores it before it is made."""

    binding: Binding


FENCE_NOTES, FENCE_STEP = "fence", "fence"
"""The name of these rows, and of the step that makes them."""


class FenceFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What the plan is made from. `topics`: those to fence. `bindings`: all ACLs of topics on the cluster.

    `own`: raymirror's principal there, empty if it is not known; `also_own`: principals of its other clients there, the
    writer of the reverse flow among them. `named`: principals that the operator names.
    """

    topics: Collection[str]
    bindings: Collection[Binding]
    own: str
    also_own: Collection[str] = ()
    named: Collection[str] = ()
    everyone: EveryoneRule = EveryoneRule.UNKNOWN

    @property
    def ours(self) -> set[str]:
        """All principals that must not be fenced."""
        return {self.own, *self.also_own} - {""}


class FencePlan(msgspec.Struct, frozen=True, kw_only=True):
    """The bindings to make, in this order; those that exist already are not among them, so they stay after an abort.

    `principals`: who is kept from writing. `passing`: raymirror's own principals that may write to a topic: whoever
    else uses one goes on writing. `closed`: topics that nobody but super users can write to.
    """

    make: tuple[Binding, ...] = ()
    refused: tuple[RefusedFence, ...] = ()
    principals: tuple[str, ...] = ()
    passing: tuple[str, ...] = ()
    closed: tuple[str, ...] = ()


def plan_fence(facts: FenceFacts) -> FencePlan:
    """Plan the fence, or refuse it with all reasons."""
    refused = list(_refused_names(facts))
    named = sorted(set(facts.named) - facts.ours)
    opens: list[Binding] = []
    denies: list[Binding] = []
    closed, everybody, locked = list[str](), list[str](), list[str]()
    passing: set[str] = set()
    for topic in sorted(facts.topics):
        covering = [one for one in facts.bindings if covers(one, topic)]
        writers = _writers(covering)
        is_bare = not covering
        may_all_write = ANYBODY in writers or (is_bare and facts.everyone is EveryoneRule.YES)
        passing |= facts.ours if may_all_write else writers & facts.ours
        if is_bare and facts.everyone is EveryoneRule.NO:
            closed.append(topic)
            continue
        if is_bare and facts.everyone is EveryoneRule.UNKNOWN:
            locked.append(topic)
            continue
        if may_all_write and not named:
            everybody.append(topic)
            continue
        if is_bare:
            opens.append(_binding(topic, ANYBODY, Operation.ALL, Permission.ALLOW))
        denies += [
            _binding(topic, principal, Operation.WRITE, Permission.DENY)
            for principal in sorted({*writers, *named} - {ANYBODY, *facts.ours})
        ]
    refused += _refused_topics(everybody, locked)
    there = set(facts.bindings)
    return FencePlan(
        make=() if refused else tuple(one for one in (*opens, *denies) if one not in there),
        refused=tuple(refused),
        principals=tuple(sorted({one.principal for one in denies})),
        passing=tuple(sorted(passing)),
        closed=tuple(closed),
    )


def taken_back(made: Iterable[Binding]) -> tuple[Binding, ...]:
    """Return the bindings of a fence in the order of their removal: the denials first, then what they needed."""
    return tuple(sorted(made, key=lambda one: one.permission != Permission.DENY))


def covers(binding: Binding, topic: str) -> bool:
    """Whether a binding is about a topic."""
    if binding.resource != Resource.TOPIC:
        return False
    if binding.pattern == Pattern.PREFIXED:
        return topic.startswith(binding.name)
    return binding.pattern == Pattern.LITERAL and binding.name in (topic, WILDCARD)


def _writers(covering: Iterable[Binding]) -> set[str]:
    return {
        one.principal
        for one in covering
        if one.permission == Permission.ALLOW and one.operation in (Operation.WRITE, Operation.ALL)
    }


def _binding(topic: str, principal: str, operation: Operation, permission: Permission) -> Binding:
    return Binding(Resource.TOPIC, topic, Pattern.LITERAL, principal, WILDCARD, operation, permission)


def _refused_names(facts: FenceFacts) -> Iterable[RefusedFence]:
    if not facts.own:
        yield RefusedFence(
            FenceRefusal.OWN_UNKNOWN,
            "only the brokers know raymirror's principal there, and it must not be fenced:"
            f" {OWN_PRINCIPAL.given('User:NAME')}",
        )
    for name in sorted(set(facts.named)):
        kind, colon, rest = name.partition(":")
        if not (kind and colon and rest) or name == ANYBODY:
            right = "write a type and a name, such as User:orders; User:* would stop raymirror too"
            yield RefusedFence(FenceRefusal.NOT_PRINCIPAL, f"{name!r} cannot be fenced: {right}")
    for own in sorted(facts.ours & set(facts.named)):
        yield RefusedFence(
            FenceRefusal.OWN_NAMED,
            f"{own} is raymirror's own principal, and the reverse flow writes as it: give producers another one",
        )


def _refused_topics(everybody: list[str], locked: list[str]) -> Iterable[RefusedFence]:
    if everybody:
        yield RefusedFence(
            FenceRefusal.EVERYBODY,
            f"everybody may write to {_some(everybody)}, and no ACL says who does: name all producers with {PRINCIPAL}",
        )
    if locked:
        yield RefusedFence(
            FenceRefusal.LOCKS_OUT,
            f"{_some(locked)} has no ACL, and allow.everyone.if.no.acl.found may be true: then the first ACL locks out"
            f" everybody else, readers among them. If it is true, say {EVERYONE_ALLOWED.given('yes')}: then everybody"
            f" is allowed by an ACL first; if it is false: {EVERYONE_ALLOWED.given('no')}",
        )


def _some(topics: list[str]) -> str:
    return f"{counted(len(topics), 'topic')} ({named(topics)})"
