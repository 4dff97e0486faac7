"""Syncs configs and ACLs in a running mirror: rounds of each, as often as its key says.

The loop writes only while this mirror owns the flow: it asks `may_write` before a round and before each request that
writes. With a planner (`planned.py`), Spark plans the rounds, and the loop applies its plans. Discovery creates topics
and adds partitions; the loop does neither. The first round may run before discovery has created topics. So while
topics have no copy, configs are compared again soon, after a pause that doubles each time: a topic that cannot be
created costs only a few rounds.
"""

import asyncio
from collections import Counter, defaultdict, deque
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from contextlib import suppress

import msgspec

from engine.base.clock import now_s, pause, wall_ms
from engine.base.errors import MirrorError
from engine.core.events.config_events import (
    AclsAdded,
    AclsRest,
    ConfigConflicts,
    ConfigSyncFailed,
    ManyChanged,
    TopicConfigsChanged,
)
from engine.core.events.events import AnyEvent
from engine.core.events.recovery_events import WorksAgain
from engine.core.reports.config_report import ConfigReport
from engine.flow.config_history.advance import SeenRound
from engine.flow.config_history.keeper import ConfigHistory
from engine.flow.config_history.state import ConfigOf
from engine.flow.config_history.values import WriteTried
from engine.flow.config_sync.audit import AuditTrail, new_run, rows_of
from engine.flow.config_sync.planned import LoopPlanner, MadePlan, Planner
from engine.flow.config_sync.planning import ACLS, Scope, SyncPlan, handed_over, without_topics
from engine.flow.config_sync.sync import ChangeOutcome, ConfigSync
from policies.model import FlowName
from policies.sync.acl_sync import AddAcl
from policies.sync.config_sync import Conflict, DropConfig, Known, SetConfig

_EVENTS = 1_000
_TOLD_EACH = 200
"""Topics, and resources with new ACLs, that get an event of their own in one round; the rest is counted."""
_LOOK_S = 0.25
"""How often the loop asks whether this mirror owns the flow, once something is due."""
_BOTH = "both clusters"
_TOLD_AFTER = 3
"""Failed rounds in a row: brokers that restart take a few seconds."""
CONFIGS = "configs"


async def _nothing_lent() -> None:
    """Do nothing."""


class ConfigLoopOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How often, in seconds, configs and ACLs are compared; None: never. `sets_configs`: whether copies are changed.

    `retry_s`: after a round that failed, and for configs at first after one that found topics without a copy.
    """

    flow: FlowName
    configs_s: float | None = 600.0
    acls_s: float | None = 600.0
    sets_configs: bool = True
    retry_s: float = 10.0


class ConfigSyncLoop:
    """The rounds of one flow; the first one starts at once."""

    def __init__(
        self,
        options: ConfigLoopOptions,
        sync: ConfigSync,
        audit: AuditTrail | None = None,
        planner: Planner | None = None,
        history: ConfigHistory | None = None,
    ) -> None:
        self.options = options
        self._history = history
        self._planner: Planner = planner or LoopPlanner()
        self.may_write: Callable[[], bool] = lambda: True
        self.moved: Callable[[], Collection[str]] = frozenset
        """Source topics whose producers write to the copies now: the source's configs are not for these any more."""
        self.restore: Callable[[], Awaitable[None]] = _nothing_lent
        """Takes back what a failover has lent to topics of the target, once the flow is copied again."""
        self._audit = audit
        self._audited: dict[str, set[ChangeOutcome | Conflict]] = {}
        self.report = ConfigReport()
        self._sync = sync
        self._events: deque[AnyEvent] = deque(maxlen=_EVENTS)
        self._due_s = {name: 0.0 for name, every_s in self._every.items() if every_s is not None}
        self._told: dict[tuple[str, str], str] = {}
        self._failures_in_row = 0
        self._uncopied_in_row = 0
        """Rounds of configs in a row that found topics without a copy."""
        self._is_early = False
        """Whether configs are compared before their time, because topics had no copy yet."""
        self._handed: Known | None = None
        """A memory that was handed over and that no round has taken yet."""
        self._shown: Known = {}
        """The memory of this process with that one."""
        self._has_handed = asyncio.Event()
        self._rest: int | None = None
        """Changes that are due at once, because they are beyond the bound of the last plan; None if none are."""

    @property
    def _every(self) -> dict[str, float | None]:
        return {CONFIGS: self.options.configs_s, ACLS: self.options.acls_s}

    @property
    def idle(self) -> bool:
        """Whether neither configs nor ACLs are to be synced."""
        return not self._due_s

    def take_events(self) -> tuple[AnyEvent, ...]:
        """Return the events since the last call."""
        events = tuple(self._events)
        self._events.clear()
        return events if self._history is None else events + self._history.take_events()

    async def run(self) -> None:
        """Make rounds until cancelled; a round that fails is noted as trouble and retried."""
        while not self.idle:
            await self.tick()
            if self._handed is not None:
                await pause(_LOOK_S)
                continue
            with suppress(TimeoutError):
                async with asyncio.timeout(max(_LOOK_S, min(self._due_s.values()) - now_s())):
                    await self._has_handed.wait()

    async def tick(self) -> None:
        """Make a round of what is due, if this mirror owns the flow."""
        due = [name for name, at_s in self._due_s.items() if now_s() >= at_s or self._is_handed(name)]
        if not due or not self._owns():
            return
        if CONFIGS in due:
            self._take_handed()
        began_s = now_s()
        try:
            configs = CONFIGS in due
            scope = Scope(
                configs=configs,
                acls=ACLS in due,
                shapes=False,
                left=configs and self._history is not None,
                early=configs and self._is_early,
            )
            if not await self.round(scope):
                return
        except (MirrorError, OSError, TimeoutError) as failure:
            self.trouble(str(failure))
            for name in due:
                self._due_s[name] = began_s + min(self._every[name] or 0.0, self.options.retry_s)
            return
        if self._rest is None:
            for name in due:
                self._due_s[name] = began_s + self._wait_s(name)
            self._is_early = self._wait_s(CONFIGS) < (self._every[CONFIGS] or 0.0)

    def remember(self, handed: Known) -> None:
        """Add what an earlier process of this mirror remembered; configs are compared again at once, with it.

        The next round takes it: a round that runs now has begun without it, and ends with a memory of its own.
        """
        if CONFIGS in self._due_s:
            self._handed = handed_over(self._handed or {}, handed)
            self._shown = handed_over(self._sync.known, self._handed)
            self._has_handed.set()

    @property
    def known(self) -> Known:
        """The memory: the configs that source topics set when they were last compared."""
        return self._sync.known if self._handed is None else self._shown

    def _take_handed(self) -> None:
        """Begin a round of configs with what was handed over."""
        if self._handed is not None:
            self._sync.known = handed_over(self._sync.known, self._handed)
            self._handed = None
            self._has_handed.clear()

    def _is_handed(self, name: str) -> bool:
        return name == CONFIGS and self._handed is not None

    def _wait_s(self, name: str) -> float:
        every_s, rounds = self._every[name] or 0.0, self._uncopied_in_row
        return (
            min(every_s, self.options.retry_s * 2.0 ** min(rounds - 1, 16)) if name == CONFIGS and rounds else every_s
        )

    async def round(self, scope: Scope) -> bool:
        """Compare and apply the changes; return False if another mirror took the flow during the round.

        Raises MirrorError if a cluster does not answer.
        """
        began_s, began_ms = now_s(), wall_ms()
        if scope.configs and self.options.sets_configs:
            await self.restore()
        made = await self._planner.plan(self._sync, scope)
        if not self.options.sets_configs:
            made = msgspec.structs.replace(made, plan=_without_configs(made.plan), more=0, more_conflicts={})
        made = msgspec.structs.replace(made, plan=without_topics(made.plan, self.moved()))
        seen_ms = wall_ms()
        if made.plan.changes and not self._owns():
            return False
        applied = await self._planner.apply(self._sync, made, self.may_write)
        plan = msgspec.structs.replace(made.plan, unread={**made.plan.unread, **applied.unread})
        self._note(scope, msgspec.structs.replace(made, plan=plan), applied.outcomes, now_s() - began_s)
        if self._history is not None and made.plan.look is not None:
            self._history.saw(_seen(made.plan, applied.outcomes, began_ms, seen_ms))
        # A rest that does not shrink waits for the next interval: otherwise rounds would follow each other for ever.
        is_due = applied.whole and made.more > 0 and (self._rest is None or made.more < self._rest)
        self._rest = made.more if is_due else None
        return applied.whole

    def _owns(self) -> bool:
        """Whether this mirror owns the flow; if not, another one may continue its history."""
        owns = self.may_write()
        if not owns and self._history is not None:
            self._history.forget()
        return owns

    def _note(self, scope: Scope, made: MadePlan, outcomes: Sequence[ChangeOutcome], round_s: float) -> None:
        """Report a round: events, the audit trail, the numbers."""
        looked = made.plan
        if self._failures_in_row >= _TOLD_AFTER:
            what = "configs and ACLs are kept in step again"
            self._events.append(WorksAgain(flow=self.options.flow, subject=_BOTH, what=what))
        self._failures_in_row = 0
        if scope.configs:
            self._uncopied_in_row = self._uncopied_in_row + 1 if looked.uncopied else 0
        self._tell(scope, made, outcomes)
        if self._audit is not None:
            self._keep(self._audit, scope, looked, outcomes)
        failed = sum(1 for outcome in outcomes if outcome.failure)
        before = self.report
        self.report = ConfigReport(
            at_ms=wall_ms(),
            round_s=round_s,
            topics=looked.topics if scope.configs else before.topics,
            changes=before.changes + len(outcomes) - failed,
            failures=before.failures + failed + len(looked.unread) + made.more_unread,
            conflicts=made.conflicts if scope.configs else before.conflicts,
            by=made.by,
            not_spark=made.not_spark,
        )

    def trouble(self, what: str) -> None:
        """Note that a round failed, and why; several failures in a row make one event."""
        self.report = msgspec.structs.replace(self.report, trouble=what)
        self._failures_in_row += 1
        if self._failures_in_row == _TOLD_AFTER:
            self._events.append(ConfigSyncFailed(flow=self.options.flow, part=_BOTH, count=1, first=what))

    def _keep(self, audit: AuditTrail, scope: Scope, looked: SyncPlan, outcomes: Sequence[ChangeOutcome]) -> None:
        """Add the round to the audit trail, without failures and conflicts that the round before had too."""
        acls = {one for one in outcomes if one.failure and isinstance(one.change, AddAcl)}
        configs = {one for one in outcomes if one.failure} - acls
        known = set[ChangeOutcome | Conflict]().union(*self._audited.values())
        if scope.configs:
            self._audited[CONFIGS] = configs | set(looked.conflicts)
        if scope.acls:
            self._audited[ACLS] = set(acls)
        new = [one for one in outcomes if one not in known]
        conflicts = [one for one in looked.conflicts if one not in known]
        audit.add(rows_of(new_run(self.options.flow, audit.who), new, conflicts))

    # --- events ----------------------------------------------------------------------------------------------

    def _tell(self, scope: Scope, made: MadePlan, outcomes: Sequence[ChangeOutcome]) -> None:
        looked = made.plan
        done = [outcome for outcome in outcomes if not outcome.failure]
        self._tell_each(CONFIGS, list(self._changed(done)))
        self._tell_each(ACLS, list(self._added(done)))
        if scope.configs:
            refused = _failures(outcomes, SetConfig, DropConfig)
            self._once_failed(CONFIGS, [*(why for what, why in looked.unread.items() if what != ACLS), *refused])
            self._tell_conflicts(made)
        if scope.acls:
            unread = [looked.unread[ACLS]] if ACLS in looked.unread else []
            self._once_failed(ACLS, [*unread, *_failures(outcomes, AddAcl)])
            for cluster in looked.no_authorizer:
                self._once("rests", cluster, cluster, lambda name: AclsRest(flow=self.options.flow, cluster=name))

    def _tell_each(self, part: str, events: Sequence[AnyEvent]) -> None:
        self._events.extend(events[:_TOLD_EACH])
        if more := len(events[_TOLD_EACH:]):
            self._events.append(ManyChanged(flow=self.options.flow, part=part, count=more))

    def _changed(self, done: Iterable[ChangeOutcome]) -> Iterable[AnyEvent]:
        changed: defaultdict[tuple[str, str], list[SetConfig | DropConfig]] = defaultdict(list)
        for outcome in done:
            if isinstance(outcome.change, SetConfig | DropConfig):
                changed[outcome.change.topic, outcome.change.target].append(outcome.change)
        for (topic, target), changes in changed.items():
            yield TopicConfigsChanged(
                flow=self.options.flow,
                topic=topic,
                target=target,
                changed={one.name: one.value for one in changes if isinstance(one, SetConfig)},
                dropped=tuple(one.name for one in changes if isinstance(one, DropConfig)),
            )

    def _added(self, done: Iterable[ChangeOutcome]) -> Iterable[AnyEvent]:
        added: defaultdict[str, list[str]] = defaultdict(list)
        for outcome in done:
            if isinstance(outcome.change, AddAcl):
                added[outcome.change.binding.name].append(str(outcome.change.binding))
        for name, bindings in added.items():
            yield AclsAdded(flow=self.options.flow, name=name, bindings=tuple(bindings))

    def _tell_conflicts(self, made: MadePlan) -> None:
        firsts: dict[str, Conflict] = {}
        for one in made.plan.conflicts:
            firsts.setdefault(one.kind.value, one)
        counts = Counter(one.kind.value for one in made.plan.conflicts) + Counter(made.more_conflicts)
        for name in {name for key, name in self._told if key == "conflict"} - firsts.keys():
            del self._told["conflict", name]
        for kind, first in firsts.items():
            count = counts[kind]
            self._once(
                "conflict",
                kind,
                f"{count} {first}",
                lambda name, count=count, first=first: ConfigConflicts(  # type: ignore[misc]
                    flow=self.options.flow, kind=name, count=count, first=f"{first.topic}: {first.what}"
                ),
            )

    def _once_failed(self, part: str, reasons: Sequence[str]) -> None:
        if not reasons:
            self._told.pop(("failed", part), None)
            return
        event = ConfigSyncFailed(flow=self.options.flow, part=part, count=len(reasons), first=reasons[0])
        self._once("failed", part, event.text(), lambda _: event)

    def _once(self, kind: str, about: str, what: str, make: Callable[[str], AnyEvent]) -> None:
        """Queue an event, unless the last one of this kind and subject said the same."""
        if self._told.get((kind, about)) != what:
            self._told[kind, about] = what
            self._events.append(make(about))


def _failures(outcomes: Iterable[ChangeOutcome], *kinds: type) -> list[str]:
    return [one.failure for one in outcomes if one.failure and isinstance(one.change, kinds)]


def _without_configs(plan: SyncPlan) -> SyncPlan:
    """Leave the configs of copies as they are."""
    bindings = tuple(one for one in plan.changes if isinstance(one, AddAcl))
    return msgspec.structs.replace(plan, changes=bindings, conflicts=())


def _seen(plan: SyncPlan, outcomes: Iterable[ChangeOutcome], began_ms: int, seen_ms: int) -> SeenRound:
    """Return what the history of configs needs of a round."""
    assert plan.look is not None
    tried: dict[ConfigOf, WriteTried] = {}
    for one in outcomes:
        if isinstance(one.change, SetConfig | DropConfig):
            value = one.change.value if isinstance(one.change, SetConfig) else None
            tried[ConfigOf(one.change.topic, one.change.name)] = WriteTried(value, one.failure)
    return SeenRound(
        began_ms=began_ms,
        at_ms=seen_ms,
        written_ms=wall_ms(),
        look=plan.look,
        tried=tried,
        conflicts={ConfigOf(one.topic, one.name): one.what for one in plan.conflicts if one.name},
    )
