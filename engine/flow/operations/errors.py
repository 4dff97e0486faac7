"""The errors of operations that a user may see."""

from engine.base.errors import MirrorError
from policies.dr.advice import DR_STATUS
from policies.dr.operation_commands import goes_on, takes_back
from policies.dr.operations import RefusedOperation


class OperationRefused(MirrorError):
    """What was asked for does not fit the state of the operations: the stable name of the reason, and a sentence."""

    exit_code = 2

    def __init__(self, name: str, why: str) -> None:
        super().__init__(name, why)
        self.name, self.why = name, why

    def __str__(self) -> str:
        return f"refused ({self.name}): {self.why}"

    @classmethod
    def of(cls, refused: RefusedOperation) -> "OperationRefused":
        """Return the error of a refusal."""
        return cls(refused.name.value, refused.why)


class OperationHeld(MirrorError):
    """Another driver, which is alive, drives the operations of the two clusters: flow, driver, topic."""

    exit_code = 2

    def __init__(self, flow: str, holder: str, topic: str) -> None:
        super().__init__(flow, holder, topic)
        self.flow, self.holder, self.topic = flow, holder, topic

    def __str__(self) -> str:
        return (
            f"operations of {self.flow} are driven by {self.holder}, which renews its entry in topic {self.topic}; wait"
            " until that command ends, or end it (Ctrl-C leaves an operation as it is), then give this command again"
        )


class OperationTaken(MirrorError):
    """Another driver has taken the operation over, or this one cannot be sure any more that it has not."""

    exit_code = 1

    def __init__(self, flow: str, why: str) -> None:
        super().__init__(flow, why)
        self.flow, self.why = flow, why

    def __str__(self) -> str:
        return (
            f"this command does not drive the operation of {self.flow} any more: {self.why}; see:"
            f" {DR_STATUS.given(self.flow)}"
        )


class NotBegun(MirrorError):
    """The check of an operation says that it may not begin; nothing is left of it: kind, flow, why."""

    exit_code = 1

    def __init__(self, kind: str, flow: str, why: str) -> None:
        super().__init__(kind, flow, why)
        self.kind, self.flow, self.why = kind, flow, why

    def __str__(self) -> str:
        return f"{self.kind} of {self.flow} may not begin: {self.why}; nothing was changed: mend it and begin again"


class StepFailed(MirrorError):
    """A step has failed. The operation stays where it is: operation, flow, step, why, whether an abort is possible."""

    exit_code = 1

    def __init__(self, kind: str, flow: str, step: str, why: str, can_return: bool) -> None:
        super().__init__(kind, flow, step, why, can_return)
        self.kind, self.flow, self.step, self.why, self.can_return = kind, flow, step, why, can_return

    def __str__(self) -> str:
        ways = f"continue: {goes_on(self.kind, self.flow)}"
        if self.can_return:
            ways += f", or take it back: {takes_back(self.kind, self.flow)}"
        return f"{self.kind} of {self.flow}, step {self.step!r}: {self.why}; {ways}"
