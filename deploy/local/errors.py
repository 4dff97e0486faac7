"""The error of an embedded cluster: it names what happened, the cause, and the log file that shows it."""

from pathlib import Path


class ClusterError(Exception):
    """An embedded cluster cannot do what was asked: `what` happened, its `cause`, and the log file that shows it."""

    def __init__(self, what: str, cause: str, log_file: Path | None = None) -> None:
        super().__init__(what, cause, log_file)
        self.what = what
        self.cause = cause
        self.log_file = log_file

    def __str__(self) -> str:
        where = f" (log: {self.log_file})" if self.log_file is not None else ""
        return f"{self.what}: {self.cause}{where}"
