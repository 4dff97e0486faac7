"""Sends the changes of a mirror to many readers: one look a second for all of them, and none without a reader.

    hub = StreamHub(lookout)
    group.create_task(hub.run())         # until cancelled
    with hub.join(last_id) as reader:    # raises HttpRefusal if there are too many
        while (chunk := await reader.next()):
            ...

A reader has a queue of its own with a bound. One whose queue is full has read too slowly: it is dropped, and joins
again. The last messages are kept, also while nobody reads, so a reader that joins again misses nothing for a while.
"""

import asyncio
import contextlib
import itertools
import secrets
from collections import deque
from collections.abc import Iterator
from typing import Final, Protocol

from actors.api.deltas import DeltaMaker, MessageKind, StreamMessage, message, snapshot
from actors.api.entities import MirrorPage, StreamEnd
from actors.api.summaries import page_of
from actors.api.view import ApiView
from actors.logging.logs import log_sentence
from actors.rest.exchange import HttpRefusal
from engine.base.clock import now_s, pause

MOST_READERS: Final = 32
MOST_WAITING: Final = 1000
"""Messages that wait for one reader; they are shared, not copied."""
MOST_KEPT: Final = 500
LOOK_S: Final = 1.0
QUIET_S: Final = 15.0
"""Seconds without a message until a comment is sent, so that proxies do not end the stream."""
LASTS_S: Final = 3600.0
"""Seconds that a stream lasts at most: then its reader must show again who it is."""
COMMENT: Final = b": still here\n\n"
_ENDED: Final = ("stopped", "draining")


class Lookout(Protocol):
    """Looks at the mirror."""

    async def look(self) -> ApiView:
        """Return the mirror as it is now, without partitions. Raises what the supervisor raises."""


class StreamReader:
    """One reader: the chunks that wait for it."""

    def __init__(self, last_id: str, until_s: float) -> None:
        self.last_id = last_id
        self._until_s = until_s
        self._waiting: deque[bytes] = deque()
        self._news = asyncio.Event()
        self._ended = False
        self.is_dropped = False
        """Whether it has read too slowly."""

    def give(self, *chunks: bytes) -> None:
        """Queue chunks; a reader that has too many of them waiting is dropped."""
        if self._ended:
            return
        self._waiting.extend(chunks)
        if len(self._waiting) > MOST_WAITING:
            self._waiting.clear()
            self.is_dropped = True
            self.end()
        self._news.set()

    def end(self) -> None:
        """Give nothing any more; what waits is still read."""
        self._ended = True
        self._news.set()

    async def next(self) -> bytes:
        """Return what waits, a comment if nothing has come for a while; empty at the end."""
        if not self._waiting and not self._ended:
            await self._wait(min(QUIET_S, self._until_s - now_s()))
        if not self._ended and now_s() >= self._until_s:
            self.give(encoded(message(MessageKind.END, StreamEnd(why="the stream has lasted long", again=True))))
            self.end()
        found = b"".join(self._waiting)
        self._waiting.clear()
        return found if found or self._ended else COMMENT

    async def _wait(self, most_s: float) -> None:
        self._news.clear()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(most_s):
                await self._news.wait()


def encoded(sent: StreamMessage, message_id: str = "") -> bytes:
    """Return a message as a server-sent event; JSON has no line ends, so its data is one line."""
    head = f"id: {message_id}\n" if message_id else ""
    return b"%sevent: %s\ndata: %s\n\n" % (head.encode(), sent.kind.encode(), sent.data)


class StreamHub:
    """All readers of a mirror's stream."""

    def __init__(self, lookout: Lookout) -> None:
        self._lookout = lookout
        self._deltas = DeltaMaker()
        self._readers: set[StreamReader] = set()
        self._joining: list[StreamReader] = []
        self._joined = asyncio.Event()
        self._life, self._numbers = secrets.token_hex(4), itertools.count(1)
        self._last_id = f"{self._life}-0"
        self._kept: deque[tuple[str, bytes]] = deque(maxlen=MOST_KEPT)
        """The last messages with their ids, after `_kept_from`."""
        self._kept_from = self._last_id
        self._page: MirrorPage | None = None
        self._said = ""

    @property
    def readers(self) -> int:
        """How many there are."""
        return len(self._readers)

    @contextlib.contextmanager
    def join(self, last_id: str = "") -> Iterator[StreamReader]:
        """Read until the end of the block; `last_id`: of the last message that the reader has. Raises HttpRefusal."""
        if len(self._readers) >= MOST_READERS:
            raise HttpRefusal(429, f"{MOST_READERS} streams are open; close one, or try again later")
        reader = StreamReader(last_id, now_s() + LASTS_S)
        self._readers.add(reader)
        self._joining.append(reader)
        self._joined.set()
        try:
            yield reader
        finally:
            self._readers.discard(reader)
            if reader in self._joining:
                self._joining.remove(reader)

    async def run(self) -> None:
        """Look once a second while somebody reads, until cancelled."""
        while True:
            if not self._readers:
                self._joined.clear()
                await self._joined.wait()
            try:
                self._publish(await self._lookout.look())
            except Exception as failure:  # noqa: BLE001 - the readers join again, and learn then whether it is over
                self._say_once(f"the streams of HTTP have ended ({type(failure).__name__}: {failure})")
                self.end("the mirror does not answer", again=True)
            else:
                self._said = ""
            await pause(LOOK_S)

    def _say_once(self, text: str) -> None:
        if text != self._said:
            self._said = text
            log_sentence("warning", text)

    def _publish(self, view: ApiView) -> None:
        """Send what has changed to all readers, and to those that have just joined what they lack."""
        self._page = page_of(view)
        events = view.present.events
        for sent in self._deltas.changes(self._page, events, view.ring):
            self._last_id = f"{self._life}-{next(self._numbers)}"
            chunk = encoded(sent, self._last_id)
            if len(self._kept) == MOST_KEPT:
                self._kept_from = self._kept[0][0]
            self._kept.append((self._last_id, chunk))
            for reader in self._readers:
                if reader not in self._joining:
                    reader.give(chunk)
        joining, self._joining = self._joining, []
        for reader in joining:
            missed = self._missed(reader.last_id)
            if missed is None:
                *parts, last = snapshot(
                    self._page, events
                )  # with an id only the end: a part of it is no place to go on
                missed = [*map(encoded, parts), encoded(last, self._last_id)]
            reader.give(*missed)

    def _missed(self, last_id: str) -> list[bytes] | None:
        """Return what came after a message; None if that is not known any more."""
        if last_id == self._kept_from:
            return [chunk for _, chunk in self._kept]
        ids = [kept for kept, _ in self._kept]
        return (
            [chunk for _, chunk in itertools.islice(self._kept, ids.index(last_id) + 1, None)]
            if last_id in ids
            else None
        )

    def end(self, why: str, *, again: bool | None = None) -> None:
        """End all streams; `again`: whether readers shall join again, by default unless the mirror has ended."""
        over = self._page is not None and self._page.mirror.phase in _ENDED
        chunk = encoded(message(MessageKind.END, StreamEnd(why=why, again=not over if again is None else again)))
        for reader in self._readers:
            reader.give(chunk)
            reader.end()
        self._joining.clear()
