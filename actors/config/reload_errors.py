"""The ways in which a reload ends without its new configuration."""

from engine.base.errors import MirrorError


class CannotReload(MirrorError):
    """The new configuration changes settings that cannot change while the mirror runs; nothing was changed."""

    def __init__(self, reasons: tuple[str, ...]) -> None:
        super().__init__(reasons)
        self.reasons = reasons

    def __str__(self) -> str:
        return "\n".join(["nothing was changed:", *(f"  {reason}" for reason in self.reasons)])


class ReloadBusy(MirrorError):
    """Another reload came first, or is not over yet."""

    exit_code = 1  # the same command may succeed in a moment

    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.why = why

    def __str__(self) -> str:
        return f"nothing was changed: {self.why}; run raymirror reload again"


class ReloadFailed(MirrorError):
    """The supervisor failed at or after the point of no return of a reload; it restarts."""

    exit_code = 1

    def __init__(self, cause: str) -> None:
        super().__init__(cause)
        self.cause = cause

    def __str__(self) -> str:
        return (
            f"the supervisor failed while it applied the file ({self.cause}) and restarts, with the whole old or the"
            " whole new configuration; to see which one: raymirror reload --dry-run"
        )
