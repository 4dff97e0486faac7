"""Stores why one lane does not copy, and what was reported: each trouble is reported once, and its end once."""

import enum


class HoldChange(enum.Enum):
    """What has changed about an open transaction that holds a lane."""

    NOTHING = enum.auto()
    HELD = enum.auto()
    """The lane has been held for so long that it must be reported."""
    RELEASED = enum.auto()
    """A hold that was reported is over."""


class HoldWatch:
    """Watches how long an open transaction holds a lane at the last stable offset."""

    def __init__(self) -> None:
        self.since_s: float | None = None
        self._reported = False

    def note(self, *, is_held: bool, now_s: float, report_after_s: float) -> HoldChange:
        """Note what a fetch at the end of the log showed; return what is to be reported."""
        if not is_held:
            was_reported, self._reported, self.since_s = self._reported, False, None
            return HoldChange.RELEASED if was_reported else HoldChange.NOTHING
        self.since_s = now_s if self.since_s is None else self.since_s
        if self._reported or now_s - self.since_s < report_after_s:
            return HoldChange.NOTHING
        self._reported = True
        return HoldChange.HELD


QUIET_S = 60.0
"""Seconds between two events about refused records of one lane that are left out."""


class LaneHealth:
    """The troubles of one lane. `reason`: why it makes no progress; empty if no cause is known."""

    def __init__(self) -> None:
        self.reason = ""
        self.fault = ""
        """The error of the last failed append, or of the last failed request of a transaction."""
        self.failed = False
        """Whether the lane had failed before it was stopped for good: status continues to show it as failed."""
        self.denied: dict[str, str] = {}
        """What ACLs deny the lane, and the reason of each denial."""
        self.hold = HoldWatch()
        self.refused = False
        """Whether the target refuses a record of the lane."""
        self._retention_passed = False
        self._left_out, self._left_out_told_s = 0, -QUIET_S

    def explain(self, reason: str) -> None:
        """Store why the lane makes no progress."""
        self.reason = reason

    def clear(self) -> None:
        """Forget the reason: no cause is known any more."""
        self.reason = ""

    def stop(self, *, failed: bool) -> None:
        """Note how the lane ended."""
        self.failed = failed

    def append_failed(self, fault: str) -> None:
        """Note the error of a failed append or request."""
        self.fault = fault

    def appended(self) -> None:
        """Note an acknowledged append."""
        self.fault = ""

    # --- each reported once: True if it is new ---------------------------------------------------------------

    def refuse(self, reason: str) -> bool:
        """Note that the target refuses a record."""
        was_refused, self.refused = self.refused, True
        self.reason = reason
        return not was_refused

    def release(self) -> bool:
        """Note that the target accepts records."""
        was_refused, self.refused = self.refused, False
        if was_refused:
            self.reason = ""
        return was_refused

    def left_out(self, records: int, now_s: float) -> int:
        """Note refused records that were left out; return how many to report now: all since the last report, or 0."""
        self._left_out += records
        if now_s - self._left_out_told_s < QUIET_S:
            return 0
        told, self._left_out, self._left_out_told_s = self._left_out, 0, now_s
        return told

    def deny(self, what: str, reason: str) -> bool:
        """Note that an ACL denies something."""
        is_new = what not in self.denied
        self.denied[what] = self.reason = reason
        return is_new

    def allow(self, what: str) -> bool:
        """Note that something is not denied any more."""
        if what not in self.denied:
            return False
        del self.denied[what]
        self.reason = next(iter(self.denied.values()), "")
        return True

    def pass_retention(self, *, passed: bool) -> bool:
        """Note whether the target's retention has passed the end of the copy."""
        is_new = passed and not self._retention_passed
        self._retention_passed = passed
        return is_new
