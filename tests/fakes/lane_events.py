"""Lane events without a listener."""

from engine.core.lane.actions import Action
from engine.flow.lane.lane_driver import LaneDriver


class NoEvents:
    """Does nothing about what a lane reports of its appends."""

    def perform(self, driver: LaneDriver, action: Action) -> None: ...

    def appended(self, driver: LaneDriver) -> None: ...

    def written(self, driver: LaneDriver) -> None: ...

    def progressed(self, driver: LaneDriver) -> None: ...
