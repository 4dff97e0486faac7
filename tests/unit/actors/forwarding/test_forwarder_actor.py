"""The process of a forwarder: it says why it does not listen, and ends itself when no supervisor calls."""

import asyncio
from pathlib import Path

import msgspec

from actors.config.config_ref import refer
from actors.forwarding.forwarder import Forwarder
from actors.forwarding.forwarder_actor import ABANDONED_S, LOOK_S, ForwarderActor, ForwarderSpec, make_forwarder
from engine.base.clock import pause

TEXT = "clusters = A, B\nA.bootstrap.servers = a:1\nB.bootstrap.servers = b:1\nA->B.enabled = true\n"
HTTP = (
    "raymirror.http.port = 8083\nraymirror.http.bind = node\nraymirror.http.nodes = all\n"
    "raymirror.http.users = eve\nraymirror.http.user.eve.token = t0ken\n"
)


class NoForwarder:
    """Notes whom it follows; listens nowhere."""

    trouble = "10.0.0.2:8083 cannot be opened (Address already in use)"

    def __init__(self) -> None:
        self.led: list[tuple[str, int]] = []

    def follow(self, host: str, port: int) -> None:
        self.led.append((host, port))

    async def run(self) -> None:
        await asyncio.get_running_loop().create_future()


async def test_it_ends_itself_when_no_supervisor_calls_any_more(tmp_path: Path) -> None:
    file = tmp_path / "mm2.properties"
    file.write_text(TEXT + HTTP)
    spec = ForwarderSpec(config=refer(file), namespace="raymirror-t", node="n" * 56, address="10.0.0.2")
    assert isinstance(make_forwarder(spec), Forwarder)
    one, codes = NoForwarder(), list[int]()
    actor = ForwarderActor(msgspec.msgpack.encode(spec), make=lambda _spec: one, end=codes.append)
    await pause(ABANDONED_S - LOOK_S)
    assert await actor.follow("10.0.0.1", 8083) == NoForwarder.trouble
    assert one.led == [("10.0.0.1", 8083)]
    await pause(ABANDONED_S - LOOK_S)
    assert codes == []
    await pause(3 * LOOK_S)
    assert codes == [0]
    actor._task.cancel()
    await asyncio.wait([actor._task])
