"""What is stored of lent configs, in memory."""

from collections.abc import Iterable

from policies.dr.lent_config import LentConfig


class FakeLoans:
    """What is lent to topics of one cluster."""

    def __init__(self) -> None:
        self.stored: dict[tuple[str, str], LentConfig] = {}
        self.copied = True

    async def read(self) -> tuple[LentConfig, ...]:
        return tuple(self.stored.values())

    async def note(self, lent: Iterable[LentConfig]) -> None:
        self.stored |= {(one.topic, one.name): one for one in lent}

    async def forget(self, lent: Iterable[LentConfig]) -> None:
        for one in lent:
            del self.stored[one.topic, one.name]

    async def is_copied(self) -> bool:
        return self.copied
