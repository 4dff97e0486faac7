"""An async context that closes what it opened, also where opening fails half-way."""

from abc import ABC, abstractmethod
from types import TracebackType
from typing import Self


class Opened(ABC):
    """Whoever enters it has it open; a subclass says what that means. `_close` may be called before all is open."""

    async def __aenter__(self) -> Self:
        try:
            await self._open()
        except BaseException:
            await self._close()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._close()

    @abstractmethod
    async def _open(self) -> None: ...

    @abstractmethod
    async def _close(self) -> None: ...
