"""One copier as the supervisor sees it: its state, its last orders, its last report."""

from collections.abc import Mapping

import msgspec

from actors.control.ports import CopierPort
from actors.model.messages import Orders, Report
from actors.model.states import CopierState
from engine.core.reports.progress import FlowProgress
from policies.model import PartitionSet


class CopierHandle:
    """One copier of one flow. Seconds are the supervisor's clock. `fingerprint`: with which this supervisor started it;
    an adopted copier reports its own.
    """

    def __init__(self, port: CopierPort, at_s: float, *, fingerprint: str = "", adopted: bool = False) -> None:
        self.port = port
        self.fingerprint = fingerprint
        self.started_at_s = at_s
        self.answered_at_s: float | None = None
        """When its process first answered; its first report comes a moment later."""
        self.drain_asked_at_s: float | None = None
        self.reported_at_s = at_s
        self.beat_at_s = at_s
        self.orders: Orders | None = None
        self.report: Report | None = None
        self.is_adopted = adopted
        self.introduced = not adopted
        """Whether the supervisor knows which sets it holds: at once if this supervisor started it."""
        self.silent_because = ""
        """Why it may be lost; empty while it reports."""
        self.held_since: dict[str, tuple[int, float]] = {}
        """Set -> the epoch at which it is held, and since when (seconds)."""
        self.is_outdated = False
        """Whether another copier must replace it."""
        self.empties = False
        """Whether its sets must move to other copiers."""

    @property
    def copier_id(self) -> str:
        return self.port.copier_id

    @property
    def state(self) -> CopierState:
        """The state of the copier; once a drain was requested, it stays DRAINING."""
        if self.drain_asked_at_s is not None:
            return CopierState.DRAINING
        return CopierState.STARTING if self.answered_at_s is None else CopierState.READY

    @property
    def progress(self) -> FlowProgress | None:
        return self.report.progress if self.report is not None else None

    @property
    def trouble(self) -> str:
        """Why it does not answer, or does not copy; empty when all is well."""
        waits_for = self.progress.waits_for if self.progress is not None else ""
        return self.port.trouble or self.silent_because or waits_for

    @property
    def has_spoken(self) -> bool:
        """Whether it may have a lease: it has reported to this supervisor, or may have reported to an earlier one."""
        return self.report is not None or self.is_adopted

    @property
    def is_open(self) -> bool:
        """Whether it reports and may be given sets."""
        is_heard = self.report is not None and self.introduced
        return self.state is CopierState.READY and is_heard and not self.empties

    @property
    def reaches_clusters(self) -> bool:
        """Whether it has connected to both clusters; a set that moved to it earlier would wait until then."""
        return self.progress is not None and self.progress.is_open

    @property
    def follows(self) -> bool:
        """Whether it follows its last orders."""
        return (
            self.orders is not None
            and self.report is not None
            and (self.report.term, self.report.version) == (self.orders.term, self.orders.version)
        )

    @property
    def is_new(self) -> bool:
        """Whether this supervisor started it, and it has not answered yet."""
        return self.state is CopierState.STARTING and not self.is_adopted

    def heeds(self, paused: bool, paused_topics: frozenset[str], wake: int) -> bool:
        """Whether its last orders have these values, and it follows them."""
        told = self.orders
        if told is None or not self.follows:
            return False
        return (told.paused, told.paused_topics, told.wake) == (paused, paused_topics, wake)

    def note_answer(self, at_s: float) -> None:
        """Note that its process answers."""
        if self.answered_at_s is None:
            self.answered_at_s = at_s

    def ask_drain(self, at_s: float) -> None:
        """Note that it must finish its batches in flight and end; its next orders say so."""
        self.drain_asked_at_s = at_s

    def note_report(self, report: Report, at_s: float) -> None:
        if self.report is None or self.report.beat != report.beat:
            self.beat_at_s = at_s
        before, self.report, self.reported_at_s = self.report, report, at_s
        if before is None or before.held != report.held:
            self._note_held(report.held, at_s)

    def _note_held(self, held: Mapping[str, int], at_s: float) -> None:
        """Note since when it holds each set. Sets in its orders count too: they may end it before it reports them."""
        ordered = {group.set_id: group.epoch for group in self.orders.sets or ()} if self.orders is not None else {}
        known = self.held_since
        self.held_since = {
            set_id: known[set_id] if known.get(set_id, (0, 0.0))[0] == epoch else (epoch, at_s)
            for set_id, epoch in {**held, **ordered}.items()
        }

    def direct(self, wanted: Orders, sets: tuple[PartitionSet, ...], at_s: float) -> None:
        """Send orders, with a new version if something changed. `wanted` has everything but sets and version."""
        known = self.orders
        if known is not None and known.sets is sets:
            same = msgspec.structs.replace(wanted, sets=sets, version=known.version)
            if msgspec.structs.replace(same, traffic=known.traffic) == known:
                self.orders = same  # other shares of the bandwidth are no new orders: they change every few seconds
                self.port.send(same)
                return
        version = known.version + 1 if known is not None and known.term == wanted.term else 1
        self.orders = msgspec.structs.replace(wanted, sets=sets, version=version)
        self._note_held(self.report.held if self.report is not None else {}, at_s)
        self.port.send(self.orders)
