"""The context of one copier: the objects that its parts share."""

import asyncio

from engine.core.events.events import AnyEvent
from engine.flow.context.copier_tasks import CopierTasks
from engine.flow.context.lease_guard import LeaseGuard
from engine.flow.context.loop_probe import LoopProbe
from engine.flow.context.pending_events import PendingEvents
from engine.flow.lane.copier_metrics import CopierMetrics
from engine.flow.lane.lane_driver import LaneDriver
from engine.flow.ports.options import FlowOptions
from engine.flow.ports.ports import Cluster
from policies.model import FlowName, TopicPartition


class CopierContext:
    """Options, clusters and lanes of one copier; its lease, metrics, tasks and events."""

    def __init__(self, options: FlowOptions, source: Cluster, target: Cluster, lease_guard: LeaseGuard) -> None:
        self.options = options
        self.source = source
        self.target = target
        self.lease_guard = lease_guard
        self.drivers: dict[TopicPartition, LaneDriver] = {}
        """The lanes, by source partition."""
        self.meter = CopierMetrics()
        self.loop_probe = LoopProbe(self.meter.loop_stall)
        self.tasks = CopierTasks()
        self.events = PendingEvents()
        self.ownerless = asyncio.Event()
        """Set when some lane may have no owner: wakes the acquisition scheduler."""

    @property
    def flow(self) -> FlowName:
        """The flow that is copied."""
        return self.options.flow

    def fail(self, driver: LaneDriver, event: AnyEvent) -> None:
        """Stop one lane and report why; the other lanes continue."""
        driver.fail(event)
        self.events.report(event)
