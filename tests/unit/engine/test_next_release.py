"""Today's code and a release one format version higher read each other's data, each in its own process."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.harness.variant import write_next_release

pytestmark = pytest.mark.local

ROOT = Path(__file__).parents[3]

WRITE = """
import base64, json, msgspec
from engine.core.offset_map.map_blocks import FORMAT_VERSION as MAP, encode_block, encode_tail
from engine.core.offset_map.map_runs import MapBlock, MapHead, MapRun
from engine.core.position.announced_runs import FORMAT_VERSION as RUNS, Ahead, Announcement, encode_announcement
from engine.core.position.position import FORMAT_VERSION as POSITION, Position, encode_value
from engine.state.event_records import EventCodec, EventsDropped
from engine.state.state import StateCodec, DesiredState, Key
from policies.model import FlowName

flow = FlowName("A", "B")
position = Position(
    source_next=9, target_next=11, sequence=5, producer_id=1, producer_epoch=2, runs=((0, 3), (2, 7)),
    assignment_epoch=4, deployment_id="d", map_generation=6, map_source=0, map_target=1, map_tail=(MapRun(0, 1, 9),),
    ahead=Ahead(5, 6, 7), run_version=8,
)
announcement = Announcement(producer_id=1, producer_epoch=2, base=8, runs=((4, 10),), ahead=Ahead(5, 6, 7))
states = StateCodec(flow, "s").encode({Key("desired"): DesiredState(state="paused", who="me")})
event = EventCodec(flow, "e").encode(EventsDropped(flow=flow, count=3, why="gone"), 5)
text = lambda raw: base64.b64encode(raw).decode()
print(json.dumps({
    "versions": [POSITION, MAP, RUNS],
    "announcement": text(encode_announcement(announcement)),
    "position": text(encode_value(position)),
    "block": text(encode_block(MapBlock(2, 6, (MapRun(0, 1, 9),)))),
    "tail": text(encode_tail(MapHead(6, 3, 9, 11, (MapRun(0, 1, 9),)))),
    "states": [[text(key), text(value)] for key, value in states.items()],
    "event": [text(one) for one in event],
}))
"""
READ = """
import base64, json, sys
from engine.core.offset_map.map_blocks import decode_block, decode_tail
from engine.core.position.announced_runs import decode_announcement
from engine.core.position.position import decode_value
from engine.state.event_records import EventCodec
from engine.state.state import StateCodec
from policies.model import FlowName

told, raw, flow = json.load(sys.stdin), base64.b64decode, FlowName("A", "B")
states = StateCodec(flow, "s").decode([(raw(key), raw(value)) for key, value in told["states"]])
(event,) = EventCodec(flow, "e").decode([(raw(told["event"][0]), raw(told["event"][1]))])
position, block = decode_value(raw(told["position"])), decode_block(2, raw(told["block"]))
tail, runs = decode_tail(raw(told["tail"])), decode_announcement(raw(told["announcement"]))
print(json.dumps([
    [position.source_next, position.sequence, position.runs, position.map_tail, position.ahead, position.run_version],
    [runs.base, runs.runs, runs.ahead],
    [block.number, block.generation, block.runs],
    [tail.generation, tail.blocks, tail.source_next, tail.target_next, tail.runs],
    [[str(key), value.state, value.who] for key, value in states.items()],
    [event.at_ms, event.event.count, event.event.why],
]))
"""
SAID = [
    [9, 5, [[0, 3], [2, 7]], [[0, 1, 9]], [5, 6, 7], 8],
    [8, [[4, 10]], [5, 6, 7]],
    [2, 6, [[0, 1, 9]]],
    [6, 3, 9, 11, [[0, 1, 9]]],
    [["desired", "paused", "me"]],
    [5, 3, "gone"],
]


def run(code: Path, script: str, told: str = "") -> Any:
    done = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, "PYTHONPATH": str(code)},
        cwd=code,
        input=told,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def following(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_next_release(ROOT, tmp_path_factory.mktemp("next") / "code")


@pytest.mark.parametrize("upgraded", [True, False], ids=["upgrade", "downgrade"])
def test_what_one_release_writes_the_other_reads(following: Path, upgraded: bool) -> None:
    writer, reader = (ROOT, following) if upgraded else (following, ROOT)
    told = run(writer, WRITE)
    assert run(reader, READ, json.dumps(told)) == SAID


def test_the_other_release_is_one_version_up(following: Path) -> None:
    ours, theirs = run(ROOT, WRITE), run(following, WRITE)
    assert theirs["versions"] == [version + 1 for version in ours["versions"]]
    assert all(theirs[name] != ours[name] for name in ("position", "announcement", "block", "tail", "states", "event"))
