"""The event of records that the target refuses and that were left out of the copy."""

from typing import ClassVar

from engine.core.events.event_base import LaneEvent
from policies.words import counted


class RecordsLeftOut(LaneEvent, frozen=True, kw_only=True, tag="records_left_out"):
    """Refused records were left out of a copy, as `raymirror.refused` says; one event a minute for each lane.

    `records`: since the last such event. `source_offset`, `error_code`, `reason`: of the last one. `topic`: where their
    entries are; `held`: whether the entries hold the records.
    """

    severity: ClassVar[str] = "warning"
    records: int
    source_offset: int
    error_code: int
    reason: str
    topic: str
    held: bool

    def text(self) -> str:
        where = f"they are in {self.topic}" if self.held else f"{self.topic} names them, without their contents"
        return (
            f"{self.lane}: {counted(self.records, 'record')} that the target refuses left out, the last one at source"
            f" offset {self.source_offset} (error {self.error_code}: {self.reason}); {where}; see: raymirror quarantine"
            " list"
        )
