"""Hands rounds to a planner elsewhere (Spark), one at a time, and waits for each plan, for a bounded time.

    loop -> ask(request) -> `wanted`: an id that others see -> request(id) -> Spark -> answer(id, plan), refuse(id, why)

An id is never used twice, in no process. So an answer to an earlier question, or to a process that died, is refused.
"""

import asyncio
import uuid
from collections.abc import Callable

import msgspec

from engine.base.errors import MirrorError
from engine.flow.config_sync.round_messages import RoundPlan, RoundRequest

FETCH_S = 15.0
"""Seconds within which someone must fetch a round's request: the supervisor asks for news once a second."""
PLAN_S = 180.0
"""Seconds that a plan may take; the loop then plans by itself."""


class PlannerAway(MirrorError):
    """The planner made no plan; the text says why."""

    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.why = why

    def __str__(self) -> str:
        return self.why


class RoundDesk:
    """The one open question of a flow."""

    def __init__(self, fetch_s: float = FETCH_S, plan_s: float = PLAN_S) -> None:
        self._fetch_s, self._plan_s = fetch_s, plan_s
        self._id, self._request = "", b""
        self._fetched: asyncio.Future[None] | None = None
        self._plan: asyncio.Future[RoundPlan] | None = None

    @property
    def wanted(self) -> str:
        """The id of the round that waits for a plan; empty if none does."""
        return self._id

    async def ask(self, request: RoundRequest) -> RoundPlan:
        """Have a round planned. Raises PlannerAway if no plan comes in time."""
        self._id, self._request = uuid.uuid4().hex[:12], msgspec.msgpack.encode(request)
        plan: asyncio.Future[RoundPlan] = asyncio.get_running_loop().create_future()
        fetched: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._plan, self._fetched = plan, fetched
        try:
            await asyncio.wait((fetched, plan), timeout=self._fetch_s, return_when=asyncio.FIRST_COMPLETED)
            if not fetched.done() and not plan.done():
                raise PlannerAway(f"the supervisor did not take the round within {self._fetch_s:.0f} s")
            async with asyncio.timeout(self._plan_s):
                return await plan
        except TimeoutError:
            raise PlannerAway(f"no plan came within {self._plan_s:.0f} s") from None
        finally:
            self._id, self._request, self._plan, self._fetched = "", b"", None, None
            if plan.done() and not plan.cancelled():
                plan.exception()  # a refusal that came while this wait was cancelled: asyncio would report it

    def request(self, round_id: str) -> bytes | None:
        """Return the request of a round, as msgpack; None if that round waits no longer."""
        if not round_id or round_id != self._id:
            return None
        if self._fetched is not None and not self._fetched.done():
            self._fetched.set_result(None)
        return self._request

    def answer(self, round_id: str, plan: bytes) -> bool:
        """Take the plan of a round (a RoundPlan); return False if that round waits no longer."""
        try:
            decoded = msgspec.msgpack.decode(plan, type=RoundPlan)
        except msgspec.MsgspecError as error:
            return self.refuse(round_id, f"the plan cannot be read ({error}); is Spark's code of another version?")
        return self._settle(round_id, lambda waiting: waiting.set_result(decoded))

    def refuse(self, round_id: str, why: str) -> bool:
        """Note that no plan will come; return False if that round waits no longer."""
        return self._settle(round_id, lambda waiting: waiting.set_exception(PlannerAway(why)))

    def _settle(self, round_id: str, settle: Callable[[asyncio.Future[RoundPlan]], None]) -> bool:
        waiting = self._plan
        if not round_id or round_id != self._id or waiting is None or waiting.done():
            return False
        settle(waiting)
        return True
