"""Keeps the durable state of one flow in a compacted topic, and lets one mirror at a time own the flow.

    read (is the owner alive?) -> fence and barrier -> read to the end -> write an own entry: now this mirror is owner

The owner's entry carries a lease. An owner that is alive changes its entry. If the entry does not change during
`dead_after_s` of this mirror's own readings, after this mirror has announced itself, this mirror may take the flow,
whatever the owner's clock says. A writer that is fenced reads the topic: if it finds another owner it gives up, else it
fences again and rewrites what the topic lost. An owner that cannot reach the leader asks followers whether another
mirror has announced itself (`state_witness`).
"""

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial

import msgspec

from engine.base.clock import backoff_s, now_s, pause, wall_ms
from engine.base.errors import BrokerUnreachable, ConnectionLost, FlowHeld, KafkaRefusal, MirrorError, StateTaken
from engine.base.parts import parts_by_weight
from engine.base.tasks import run_all
from engine.flow.lane.bounded_retry import BoundedRetry
from engine.flow.lane.fenced_writer import FencedWriter, WriterFenced
from engine.flow.ports.ports import Cluster
from engine.flow.ports.state_options import StateOptions
from engine.flow.topic_logs import state_witness
from engine.state.state import CANDIDATE, DEPLOYMENT, Deployment, Key, StateCodec, StateHolder, Stored, Value, owner_of
from policies.model import TopicPartition

_ROUNDS = 5
"""The most times in a row that a writer fences again before it gives up."""


class _Round:
    """Entries that are written together, and the outcome."""

    def __init__(self) -> None:
        self.entries: dict[bytes, bytes | None] = {}
        self.done = False
        self.refusal: KafkaRefusal | None = None


class StateLog:
    """The state of one flow, for one owner. After `open`, calls may run concurrently.

    `known_dead` returns True if an owner cannot be alive (its process on this machine has ended); then `open` does not
    wait for a sign of life.
    """

    def __init__(
        self,
        options: StateOptions,
        cluster: Cluster,
        holder: StateHolder,
        known_dead: Callable[[Deployment], bool] = lambda _owner: False,
    ) -> None:
        self.options = options
        self.keep_alive_s = options.keep_alive_s
        self.awaited = ""
        """What `open` waits for; empty if it does not wait."""
        self.trouble = ""
        """Why the last renewal of the lease failed; empty if it succeeded."""
        self._cluster = cluster
        self._holder = holder
        self._known_dead = known_dead
        self._codec = StateCodec(options.flow, options.topic, options.scope)
        self._partition = TopicPartition(options.topic, 0)
        self._writer = FencedWriter(cluster, self._partition, options.transactional_id, options.request_timeout_s)
        self._where = f"topic {options.topic} on cluster {options.flow.target!r}"
        self._patience = BoundedRetry(self._where, options.patience_s, lambda: self._writer.reason)
        self._lock = asyncio.Lock()
        self._round = _Round()
        self._retries: dict[bytes, bytes | None] = {}
        self._stored: dict[bytes, bytes] = {}
        self._ours: Deployment | None = None
        self._lost: StateTaken | None = None
        self._closing = False
        self._kept_alive_at = 0.0
        self._sure_at_s = now_s()

    @property
    def unrenewed_s(self) -> float:
        """The seconds since this mirror was last sure to own the flow: since the last renewal, or since followers last
        confirmed that no other mirror has come.
        """
        return now_s() - self._sure_at_s

    @property
    def fenced(self) -> bool:
        """Whether the broker refuses previous owners; without transactional ids they are only detected."""
        return self._writer.fenced

    # --- taking the flow -------------------------------------------------------------------------------------

    async def open(self) -> None:
        """Take the flow: at once if no mirror owns it, else after its owner has been silent for `dead_after_s`.

        Raises FlowHeld when its owner is alive, NewerFormat, StateUnreadable, KafkaRefusal, BrokerUnreachable.
        """
        for attempt in range(1, _ROUNDS + 1):
            seen = await self._await_silence()
            try:
                await self._patience.persist(partial(self._take, seen))
                self.awaited = self.trouble = ""
                return
            except WriterFenced:
                await pause(backoff_s(attempt))  # another mirror took the flow in the same moment: read again
        raise FlowHeld(str(self.options.flow), "other mirrors that try to take it right now", self.options.topic)

    async def _await_silence(self) -> Deployment | None:
        """Return the owner's entry that may be replaced. Raises FlowHeld."""
        seen = await self._patience.persist(self._owner)
        if not self._free(seen):
            await self._patience.persist(
                partial(state_witness.announce, self.options, self._cluster, self._codec, self._holder)
            )
        since = read_at = now_s()
        while not self._free(seen):
            dead_after_s = self._dead_after_s(seen)
            if now_s() - since >= dead_after_s:
                return seen
            self.awaited = f"a sign of life of {seen}, up to {dead_after_s:g} s"
            await pause(self.options.look_every_s)
            found = await self._patience.persist(self._owner)
            if found != seen and not self._free(found):
                raise self._held(found)
            if now_s() - read_at > self.options.look_every_s + dead_after_s / 3:
                since = now_s()  # this mirror could not read for a while: the owner may have been cut off as well
            seen, read_at = found, now_s()
        return seen

    def _dead_after_s(self, owner: Deployment | None) -> float:
        kin = owner is not None and owner.deployment_id == self._holder.deployment_id
        return self.options.kin_dead_after_s if kin else self.options.dead_after_s

    def _free(self, owner: Deployment | None) -> bool:
        if owner is None or owner.released or owner.instance_id == self._holder.instance_id:
            return True
        return self._known_dead(owner)

    async def _take(self, seen: Deployment | None) -> None:
        await self._writer.acquire()
        records = await self._read()
        entries = self._codec.decode(records)
        found = owner_of(entries)
        if found != seen and not self._free(found):
            raise self._held(found)
        now_ms = wall_ms()
        ours = Deployment(
            **msgspec.structs.asdict(self._holder),
            term=max((one.term for one in (found, seen) if one is not None), default=0) + 1,
            since_ms=now_ms,
            at_ms=now_ms,
            until_ms=now_ms + self._lease_ms,
        )
        claim = self._codec.encode({DEPLOYMENT: ours, **dict.fromkeys(entries.keys() & {CANDIDATE})})
        await self._writer.append(list(claim.items()))
        self._stored = self._codec.own([*records, *claim.items()])
        self._ours, self._kept_alive_at = ours, now_s()
        self._sure_at_s = now_s()

    @property
    def _lease_ms(self) -> int:
        return int(self.options.dead_after_s * 1000)

    def _held(self, owner: Deployment | None) -> FlowHeld:
        return FlowHeld(str(self.options.flow), str(owner), self.options.topic)

    # --- reading ---------------------------------------------------------------------------------------------

    def load(self) -> dict[Key, Value]:
        """Return all entries: those read after the barrier, and those put since."""
        return self._codec.decode(self._stored.items())

    async def _owner(self) -> Deployment | None:
        return owner_of(self._codec.decode(await self._read()))

    async def _read(self) -> list[Stored]:
        if self._partition not in await self._cluster.leaders([self._partition]):
            raise ConnectionLost(f"{self._partition} is not known yet")
        return await self._cluster.read_records(self.options.topic)

    # --- writing ---------------------------------------------------------------------------------------------

    async def put(self, entries: Mapping[Key, Value | None]) -> None:
        """Write entries (None removes one) and wait until they are durable; concurrent calls share a batch.

        Raises StateTaken, KafkaRefusal, and BrokerUnreachable after `patience_s`. After that, or if cancelled, the
        entries may or may not be written, and the next write sends them again.
        """
        if self._lost is not None:
            raise self._lost
        mine = self._round
        mine.entries.update(self._codec.encode(entries))

        async def write() -> None:
            async with self._lock:
                if not mine.done:
                    await self._write(mine)

        await self._patience.bounded(write)
        if mine.refusal is not None:
            raise mine.refusal

    async def _write(self, mine: _Round) -> None:
        """Write a round, and entries that earlier rounds could not write; the caller holds the lock."""
        if self._lost is not None:
            raise self._lost
        if self._ours is None:
            raise RuntimeError("the state was not opened")
        if self._round is mine:
            self._round = _Round()
        self._retries.update(mine.entries)
        try:
            await self._pay()
        except KafkaRefusal as refusal:
            self._retries.clear()
            mine.refusal = refusal
        mine.done = True

    async def _pay(self) -> None:
        """Append all entries that are due, in order."""
        regained = 0
        while self._retries:
            batch = next(parts_by_weight(self._retries.items(), _size_of, self.options.batch_bytes))
            try:
                await self._writer.append(batch)
            except WriterFenced as fenced:
                regained += 1
                if regained > _ROUNDS:
                    raise BrokerUnreachable(self._where, f"fenced again and again: {fenced}") from None
                await self._patience.retrying(self._regain)
                continue
            for key, value in batch:
                del self._retries[key]
                if value is None:
                    self._stored.pop(key, None)
                else:
                    self._stored[key] = value

    async def _regain(self) -> None:
        """Fence again if this mirror still owns the flow, and make due what the topic lacks. Raises StateTaken."""
        await self._check()
        try:
            await self._writer.acquire()
        except WriterFenced as fenced:
            raise ConnectionLost(f"{self._where}: {fenced}") from None
        there = await self._check()
        lost = {key: value for key, value in self._stored.items() if there.get(key) != value}
        self._retries = {**lost, **self._retries}

    async def _check(self) -> dict[bytes, bytes]:
        """Read the topic and give up the flow if it has another owner. Raises StateTaken."""
        records = await self._read()
        owner, ours = owner_of(self._codec.decode(records)), self._ours
        if owner is not None and ours is not None and owner.replaces(ours):
            self._lost = StateTaken(str(self.options.flow), str(owner), self.options.topic)
            raise self._lost
        return self._codec.own(records)

    # --- the lease -------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Renew the lease until cancelled, through every outage; after `close` it only waits to be cancelled.

        Raises StateTaken if another mirror owns the flow.
        """
        await run_all(self._renew_again(), self._ask_witnesses())

    async def _ask_witnesses(self) -> None:
        """While the lease is not renewed, ask followers whether this mirror still owns the flow."""
        while True:
            await pause(self.options.renew_s)
            ours, written_to = self._ours, self._writer.written_to
            if ours is None or written_to is None or self.unrenewed_s < 2 * self.options.renew_s:
                continue
            began_s = now_s()
            if await state_witness.nobody_else(self.options, self._cluster, self._codec, ours, written_to):
                self._sure_at_s = max(self._sure_at_s, began_s)

    async def _renew_again(self) -> None:
        while True:
            await pause(self.options.renew_s)
            try:
                if not self._closing:
                    await self.renew()
                self.trouble = ""
            except (BrokerUnreachable, KafkaRefusal) as error:
                self.trouble = str(error)
                await self._mend()

    async def _mend(self) -> None:
        """Repair what may have failed a renewal, before the next one; a subclass may override this."""

    async def renew(self) -> None:
        """Renew the lease once, and the transactional id when it is time. Raises what `put` raises."""
        if self._lost is not None:
            raise self._lost
        if not self._writer.fenced:
            await self._patience.persist(self._check)
        elif now_s() - self._kept_alive_at >= self.keep_alive_s:
            await self._patience.bounded(self._keep_alive)
        await self._put_ours(released=False)

    async def _keep_alive(self) -> None:
        async with self._lock:
            try:
                await self._patience.retrying(self._writer.keep_alive)
            except WriterFenced:
                await self._patience.retrying(self._regain)
        self._kept_alive_at = now_s()

    async def _put_ours(self, *, released: bool) -> None:
        if self._closing and not released:
            return  # `close` has given the flow back
        if self._ours is None:
            raise RuntimeError("the state was not opened")
        began_s, now_ms = now_s(), wall_ms()
        until_ms = now_ms if released else now_ms + self._lease_ms
        self._ours = msgspec.structs.replace(
            self._ours, renewals=self._ours.renewals + 1, at_ms=now_ms, until_ms=until_ms, released=released
        )
        await self.put({DEPLOYMENT: self._ours})
        self._sure_at_s = began_s

    async def close(self, *, release: bool = True, within_s: float = 5.0) -> None:
        """Give the flow back, so that its next owner need not wait, and disconnect; skip that if no broker answers."""
        self._closing = True
        if release and self._ours is not None and self._lost is None:
            with suppress(TimeoutError, MirrorError):
                async with asyncio.timeout(within_s):
                    await self._put_ours(released=True)
        self._ours = None
        await self._writer.close()


def _size_of(entry: tuple[bytes, bytes | None]) -> int:
    return len(entry[0]) + len(entry[1] or b"")
