"""Tracks brokers that do not answer about groups, and the groups that wait for them; one event for each long outage.

Only its coordinator knows a group. So the groups of a broker that is unreachable are neither gone nor failed: they wait
until the broker answers, or until another broker coordinates them.
"""

from collections import Counter
from collections.abc import Iterable, Mapping

from engine.base.clock import now_s
from engine.core.events.group_events import GroupBrokerAway
from engine.core.events.recovery_events import WorksAgain
from policies.model import FlowName
from policies.words import counted

_TOLD_AFTER_S = 10.0
"""An outage makes an event after this many seconds: a broker that restarts is unreachable for a few seconds."""

_Broker = tuple[str, int]
"""A cluster's alias and a broker of it."""


class AwayBrokers:
    """The unreachable brokers of both clusters of a flow."""

    def __init__(self, flow: FlowName) -> None:
        self._flow = flow
        self._unheard: dict[_Broker, str] = {}
        self._waits: dict[str, tuple[_Broker, str]] = {}
        self._since_s: dict[_Broker, float] = {}
        self._told: set[_Broker] = set()

    def listed(self, cluster: str, unheard: Mapping[int, str]) -> None:
        """Note which brokers did not list their groups; this replaces the earlier brokers of that cluster."""
        others = {broker: why for broker, why in self._unheard.items() if broker[0] != cluster}
        self._unheard = others | {(cluster, node): why for node, why in unheard.items()}

    def looked(self, groups: Iterable[str], away: Mapping[str, tuple[str, int]], why: Mapping[str, str]) -> None:
        """Note which of some groups wait, for which cluster's broker, and why."""
        for group in groups:
            self._waits.pop(group, None)
        self._waits.update({group: (broker, why[group]) for group, broker in away.items()})

    def gone(self, group: str) -> None:
        """Forget a group."""
        self._waits.pop(group, None)

    def waits(self, group: str) -> bool:
        """Whether a group waits for a broker."""
        return group in self._waits

    @property
    def waiting(self) -> int:
        """How many groups wait; groups that were never listed are not counted."""
        return len(self._waits)

    def lines(self) -> dict[str, str]:
        """Return, for each unreachable broker, why it is unreachable and how many groups wait for it."""
        counts = Counter(broker for broker, _ in self._waits.values())
        return {
            _name(broker): f"{why} ({counted(counts[broker], 'group')})" for broker, why in sorted(self._why().items())
        }

    def take_events(self) -> list[GroupBrokerAway | WorksAgain]:
        """Return one event for each broker that stays unreachable, and one when it answers again."""
        why, at_s = self._why(), now_s()
        self._since_s = {broker: self._since_s.get(broker, at_s) for broker in why}
        back = sorted(self._told - why.keys())
        self._told &= why.keys()
        due = [broker for broker, since_s in self._since_s.items() if at_s - since_s >= _TOLD_AFTER_S]
        counts = Counter(broker for broker, _ in self._waits.values())
        answers = "it answers again; the groups that it coordinates are mirrored"
        events: list[GroupBrokerAway | WorksAgain] = [
            WorksAgain(flow=self._flow, subject=_name(broker), what=answers) for broker in back
        ]
        events += [
            GroupBrokerAway(
                flow=self._flow,
                group=_name(broker),
                groups=counts[broker],
                why=why[broker],
            )
            for broker in sorted(due)
            if broker not in self._told
        ]
        self._told.update(due)
        return events

    def _why(self) -> dict[_Broker, str]:
        return dict(self._waits.values()) | self._unheard


def _name(broker: _Broker) -> str:
    cluster, node = broker
    return f"broker {node} of cluster {cluster!r}"
