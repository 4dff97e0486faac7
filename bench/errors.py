"""The error of a bench that has no figure."""


class BenchError(Exception):
    """A run gives no figure: the system, and what went wrong."""

    def __init__(self, system: str, what: str) -> None:
        super().__init__(system, what)
        self.system, self.what = system, what

    def __str__(self) -> str:
        return f"{self.system}: {self.what}"
