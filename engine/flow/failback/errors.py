"""The errors of a failback that a user may see."""

from collections.abc import Sequence

import msgspec

from engine.base.errors import MirrorError

NOT_FAILED_OVER = "not-failed-over"
"""The name of the reason of a flow that was not failed over, or was failed back since."""
_NAMED = 10


class FailbackReason(msgspec.Struct, frozen=True):
    """One reason: its stable name, what it is about (a partition, a flow), and a sentence."""

    name: str
    subject: str
    why: str

    def __str__(self) -> str:
        return f"{self.subject}: {self.name}: {self.why}"


class FailbackRefused(MirrorError):
    """A failback would do harm, or cannot be exact: all reasons."""

    exit_code = 4

    def __init__(self, reasons: Sequence[FailbackReason]) -> None:
        super().__init__(tuple(reasons))
        self.reasons = tuple(reasons)

    def __str__(self) -> str:
        named = "; ".join(map(str, self.reasons[:_NAMED]))
        more = f"; and {len(self.reasons) - _NAMED} more" if len(self.reasons) > _NAMED else ""
        return f"the failback is refused: {named}{more}"


class SourceWritten(MirrorError):
    """Somebody wrote to the source while it should be fenced: where, by partition."""

    exit_code = 1

    def __init__(self, where: dict[str, str]) -> None:
        super().__init__(where)
        self.where = where

    def __str__(self) -> str:
        named = "; ".join(f"{lane}: {what}" for lane, what in list(self.where.items())[:_NAMED])
        return f"somebody still writes to the source: {named}; fence its producers"


class NotStored(MirrorError):
    """Positions or configs could not be changed: what, and why by lane or topic."""

    exit_code = 1

    def __init__(self, what: str, why: dict[str, str]) -> None:
        super().__init__(what, why)
        self.what, self.why = what, why

    def __str__(self) -> str:
        named = "; ".join(f"{one}: {why}" for one, why in list(self.why.items())[:_NAMED])
        return f"{self.what} could not be changed: {named}"
