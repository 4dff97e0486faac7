"""Why a bench has no figure."""


class BenchError(Exception):
    """A run that gives no figure: which system, what was seen."""

    def __init__(self, system: str, what: str) -> None:
        super().__init__(system, what)
        self.system, self.what = system, what

    def __str__(self) -> str:
        return f"{self.system}: {self.what}"
