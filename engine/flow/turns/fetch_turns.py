"""Gives the lanes of a copier their turns to be fetched, by the limits and classes that the supervisor sent.

Without rules it allows everything at once. A lane is held back by the first of these that holds it back:

1. memory: colder classes leave the last quarter of the copier's memory to hotter ones
2. priority: a hotter class has a backlog (`class_shares.py`)
3. bandwidth: a limit of its topic, or of the flow, is used up (`token_bucket.py`), or it is another lane's turn
   (`lane_order.py`)
"""

import asyncio
from collections.abc import Callable
from typing import Protocol

import msgspec

from engine.base.clock import now_s
from engine.flow.lane.lane_driver import LaneDriver
from engine.flow.turns.class_shares import ClassShares
from engine.flow.turns.lane_order import LaneOrder
from engine.flow.turns.token_bucket import TokenBucket
from policies.placement.bandwidth_shares import BandwidthUse
from policies.traffic import BandwidthRule, Priority, TrafficRules

_LEFT_TO_HOTTER = 4
"""Colder classes leave this part (1/4) of the memory to hotter ones."""
_AGAIN_S = 0.05
"""A lane that waits for memory or for a hotter class is looked at again after so many seconds."""
_FRESH_S = 5.0
"""A backlog of which nothing was heard for so many seconds does not move, and holds nobody back."""
_HELD_S = 2.0
"""A limit counts as one that holds lanes back for so many seconds after it did."""
_LASTS_S = 0.005
"""For so many seconds it is not asked again whether a class must wait, unless an answer came."""
_LEAST_BYTES = 16 * 1024
"""Least bytes of a partition in one fetch: the broker sends one batch in any case."""


class Memory(Protocol):
    """The memory of a copier, as its turns see it (`engine.flow.io.buffers`)."""

    budget_bytes: int
    used_bytes: int


class _Limit:
    """One limit, and what is fetched under it."""

    def __init__(self, rule: BandwidthRule, at_s: float) -> None:
        self.rule = rule
        self.bucket = TokenBucket(rule.bytes_per_s, at_s)
        self.order = LaneOrder[LaneDriver]()
        self.held_at_s = -_HELD_S
        self._bytes = 0
        self._measured_s = at_s
        self._bytes_per_s = 0.0

    def take(self, size: int, at_s: float) -> None:
        self._bytes += size
        self.bucket.take(size, at_s)

    def use(self, at_s: float) -> BandwidthUse:
        """Return the rate since the last call, half of it as it was before, so that one answer does not decide."""
        passed_s = at_s - self._measured_s
        if passed_s > 0:
            self._bytes_per_s = (self._bytes_per_s + max(0, self._bytes) / passed_s) / 2
            self._bytes, self._measured_s = 0, at_s
        return BandwidthUse(self._bytes_per_s, at_s - self.held_at_s < _HELD_S)


class _Topic(msgspec.Struct):
    """What holds for the lanes of one topic."""

    priority: Priority
    limits: tuple[_Limit, ...]


class FetchTurns:
    """The turns of all lanes of a copier. `can_move`: whether what is fetched for a lane could be sent on. `wake`: lets
    all brokers' readers look at their lanes again.
    """

    def __init__(self, memory: Memory, can_move: Callable[[LaneDriver], bool], wake: Callable[[], None]) -> None:
        self._memory, self._can_move, self._wake = memory, can_move, wake
        self._rules = TrafficRules()
        self._limits: dict[str, _Limit] = {}
        self._topics: dict[str, _Topic] = {}
        self._shares = ClassShares()
        self._ends: dict[LaneDriver, tuple[int, float]] = {}
        """The end that the last answer of a lane reported, and when: what lies before it can be fetched."""
        self._timer: asyncio.Handle | None = None
        self._due = 0.0
        """When the timer rings, by the loop's clock: uvloop's handle of a timer that is due now does not know it."""
        self._class_waits: dict[Priority, tuple[float, str]] = {}
        """Why a class must wait, and as of when: found once for all lanes of a fetch."""

    @property
    def has_classes(self) -> bool:
        """Whether some topics may have another class than others."""
        return bool(self._rules.priorities)

    def limit(self, rules: TrafficRules) -> bool:
        """Follow other rules from now on; return whether classes have changed. Debts of limits that stay are kept."""
        at_s, before = now_s(), self._rules
        self._rules = rules
        known, self._limits = self._limits, {}
        for rule in rules.bandwidth:
            limit = self._limits[rule.pattern] = known.get(rule.pattern) or _Limit(rule, at_s)
            limit.rule = rule
            limit.bucket.limit(rule.bytes_per_s, at_s)
        self._topics.clear()
        self._class_waits.clear()
        return rules.priorities != before.priorities

    def priority_of(self, driver: LaneDriver) -> Priority:
        """Return the class of a lane."""
        return self._topic(driver).priority if self._rules.priorities else Priority.NORMAL

    def holds_back(self, driver: LaneDriver) -> bool:
        """Whether a lane must not be fetched now; then all readers are woken when that may have changed."""
        if not self._rules.bandwidth and not self._rules.priorities:
            return False
        topic, at_s = self._topic(driver), now_s()
        if self._rules.priorities and self._why_class_waits(topic.priority, at_s):
            self._wake_in(_AGAIN_S)
            return True
        wait_s = 0.0
        for limit in topic.limits:
            if limit_s := limit.bucket.wait_s(at_s):
                limit.held_at_s = at_s
                limit.order.refuse(driver)
            else:
                limit_s = limit.order.wait_s(driver, at_s)
            wait_s = max(wait_s, limit_s)
        if wait_s:
            self._wake_in(wait_s)
            return True
        for limit in topic.limits:
            if limit.order.serve(driver):
                self._wake_in(0.0)
        return False

    def why_held(self, driver: LaneDriver) -> str:
        """Return why a lane is fetched later than it could be; empty if it is not."""
        if not self._rules.bandwidth and not self._rules.priorities:
            return ""
        topic, at_s = self._topic(driver), now_s()
        if self._rules.priorities and (why := self._why_class_waits(topic.priority, at_s)):
            return f"held back by raymirror.priority (class {topic.priority.name.lower()}): {why}"
        for limit in topic.limits:
            if limit.bucket.wait_s(at_s) or at_s - limit.held_at_s < _HELD_S:
                what = f"topics {limit.rule.said}" if limit.rule.said else "the whole flow"
                return (
                    f"held back by raymirror.bandwidth.bytes: {what} may have {limit.rule.bytes_per_s:,} bytes per"
                    " second in this copier"
                )
        return ""

    def most_bytes(self, driver: LaneDriver, most: int) -> int:
        """Return the most bytes to fetch for a lane now; `most` without a limit."""
        if not self._rules.bandwidth:
            return most
        at_s = now_s()
        room = min((limit.bucket.room(at_s) for limit in self._topic(driver).limits), default=most)
        return min(most, max(room, _LEAST_BYTES))

    def reserve(self, driver: LaneDriver, size: int) -> None:
        """Count bytes that were asked for, before they arrive: many requests are under way at once."""
        if self._rules.bandwidth:
            at_s = now_s()
            for limit in self._topic(driver).limits:
                limit.bucket.take(size, at_s)

    def received(self, driver: LaneDriver, size: int, end: int = -1, *, reserved: int = 0) -> None:
        """Count the bytes of a lane in an answer, wanted or not. `end`: up to where the leader would send records, -1:
        not said. `reserved`: what `reserve` counted for this answer.
        """
        if not self._rules.bandwidth and not self._rules.priorities:
            return
        topic, at_s = self._topic(driver), now_s()
        for limit in topic.limits:
            limit.take(size, at_s)
            limit.bucket.take(-reserved, at_s)
        if self._rules.priorities:
            self._class_waits.clear()
            self._shares.received(topic.priority, size, at_s)
            if end >= 0 and driver.lane.listens:
                self._ends[driver] = end, at_s

    def forget(self, driver: LaneDriver) -> None:
        """Forget a lane that has left."""
        for limit in self._limits.values():
            limit.order.forget(driver)
        self._ends.pop(driver, None)
        self._class_waits.clear()

    def due_s(self) -> float:
        """Return in how many seconds a lane that is held back may be fetched; infinite if none is."""
        if self._timer is None:
            return float("inf")
        return max(0.0, self._due - asyncio.get_running_loop().time())

    def use(self) -> dict[str, BandwidthUse]:
        """Return what is fetched under each limit; call it once for each report."""
        at_s = now_s()
        return {pattern: limit.use(at_s) for pattern, limit in self._limits.items()}

    def _topic(self, driver: LaneDriver) -> _Topic:
        name = driver.name.source.topic
        topic = self._topics.get(name)
        if topic is None:
            limits = tuple(self._limits[pattern] for pattern in self._rules.limits_of(name))
            topic = self._topics[name] = _Topic(self._rules.priority_of(name), limits)
        return topic

    def _why_class_waits(self, priority: Priority, at_s: float) -> str:
        found_s, why = self._class_waits.get(priority, (-_LASTS_S, ""))
        if at_s - found_s >= _LASTS_S:
            why = self._find_why_class_waits(priority, at_s)
            self._class_waits[priority] = at_s, why
        return why

    def _find_why_class_waits(self, priority: Priority, at_s: float) -> str:
        if priority is Priority.HIGH:
            return ""
        memory = self._memory
        hotter = [driver for driver in self._ends if self._topic(driver).priority < priority]
        if hotter and memory.used_bytes > memory.budget_bytes - memory.budget_bytes // _LEFT_TO_HOTTER:
            return "the last quarter of the copier's memory is for hotter classes"
        waits = any(self._has_backlog(driver, at_s) for driver in hotter)
        may_fetch = self._shares.may_fetch(priority, at_s, hotter_waits=waits)
        return "" if may_fetch else "a hotter class has a backlog"

    def _has_backlog(self, driver: LaneDriver, at_s: float) -> bool:
        end, heard_s = self._ends[driver]
        lane = driver.lane
        return end > lane.fetch_offset and at_s - heard_s < _FRESH_S and lane.listens and self._can_move(driver)

    def _wake_in(self, wait_s: float) -> None:
        loop = asyncio.get_running_loop()
        due = loop.time() + wait_s
        if self._timer is not None:
            if self._due <= due:
                return
            self._timer.cancel()
        self._timer, self._due = loop.call_at(due, self._ring), due

    def _ring(self) -> None:
        self._timer = None
        self._wake()
