"""Questions that cannot be answered as they were put."""

from engine.base.errors import MirrorError


class BadQuestion(MirrorError):
    """Arguments that do not fit the configuration: what is wrong, what would be right."""

    def __init__(self, wrong: str, right: str) -> None:
        super().__init__(wrong, right)
        self.wrong, self.right = wrong, right

    def __str__(self) -> str:
        return f"{self.wrong}; {self.right}"
