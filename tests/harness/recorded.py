"""A mirror as it was at one moment, behind the real HTTP server: no cluster, no Ray. Commands change its wanted state.

python -m tests.harness.recorded 18083      # the console of a mirror with 10,000 partitions, until Ctrl-C
"""

import asyncio
import json
import math
import sys
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import msgspec

from actors.api.commands.look_words import CommandOutcome
from actors.api.commands.pages import (
    PrintedContents,
    PrintedRefused,
    RecordBytes,
    RecordContents,
    RecordHeader,
    RefusedContents,
    RefusedFacts,
    RefusedOfFlow,
)
from actors.api.series import SeriesRing
from actors.config.difference import ChangeRow, ConfigDifference
from actors.console.sessions import SessionBook
from actors.http.command_looks import CommandLooks
from actors.http.server import MirrorServer
from actors.http.service import api_facts
from actors.http.views import MirrorFacts, SupervisorViews
from actors.model.messages import StoredOffset
from actors.model.states import CopierState, Desired
from actors.model.status import CopierStatus, EventLine, FlowStatus, MirrorStatus, TopicStatus, encode_status
from actors.rest.connectors import connectors_of
from engine.base.clock import wall_ms
from engine.config.config import plain_settings, read_config
from engine.config.file.properties import parse_properties
from engine.config.settings import HttpConfig
from engine.core.reports.group_report import GroupsReport
from engine.core.reports.latency import LatencyHistogram
from engine.core.reports.move_progress import MigratingGroup, MoveProgress
from engine.core.reports.progress import LaneProgress
from engine.flow.config_sync.audit import AuditRow
from engine.flow.groups.status import GroupPartitionStatus, GroupStatus
from engine.flow.surveys.dr_preview import DrPreview, TopicLoss
from engine.flow.surveys.readiness_survey import Readiness
from engine.jobs.proof.state import FlowProof, LaneProof
from policies.dr.advice import AskedFrom
from policies.dr.readiness import Unready, UnreadyName
from policies.dr.topic_moves import GroupPart
from policies.model import TopicPartition
from tests.harness.recorded_runs import RecordedRuns

CONFIG = """clusters = east, west, archive
east.bootstrap.servers = kafka-1.east.example:9092, kafka-2.east.example:9092
west.bootstrap.servers = kafka-1.west.example:9092
archive.bootstrap.servers = kafka.archive.example:9092
east->west.enabled = true
east->west.topics = orders.*
west->east.enabled = true
west->east.topics = payments
east->archive.enabled = true
east->archive.topics = invoices
raymirror.rpo.seconds = 30
raymirror.storage = file:/var/lib/raymirror
"""
FILE = "/etc/raymirror/mm2.properties"
WIDE, BACK, COLD = "east->west", "west->east", "east->archive"
PARTITIONS = 20
TOO_LARGE = "the target refuses a record of offset 1,204,118: too large (max.message.bytes of the copy is 1,048,588)"
SILENT = "waits for a fetch from source broker 2"


def _lane(flow: str, topic: str, partition: int, now_ms: int, **changes: object) -> LaneProgress:
    position = 1_000_000 + 7919 * partition
    source = flow.split("->")[0]
    plain = LaneProgress(
        lane=TopicPartition(topic, partition),
        target=TopicPartition(f"{source}.{topic}", partition),
        state="copying",
        reason="",
        source_next=position,
        target_next=position + 4,
        source_end=position + partition % 3,
        records=5000,
        wire_bytes=4_000_000,
        in_flight=0,
        queued_bytes=0,
        resumed_by="ledger",
        reencoded=0,
        skipped=0,
        set_id=f"{flow}/{partition % 8:03d}",
        epoch=7,
        source_end_age_ms=400,
        lag_bytes=1000 * (partition % 3),
        newest_ms=now_ms - 900,
        appended_at_ms=now_ms - 700,
        behind_since_ms=now_ms - 300 if partition % 3 else -1,
    )
    return msgspec.structs.replace(plain, **changes)


def _flow(name: str, lanes: list[LaneProgress], **changes: object) -> FlowStatus:
    latency = LatencyHistogram()
    for ms in (3.0, 4.0, 5.0, 9.0, 21.0):
        latency.add(ms)
    states: dict[str, int] = {}
    for lane in lanes:
        states[lane.state] = states.get(lane.state, 0) + 1
    behind = [lane.behind_since_ms for lane in lanes if lane.behind_since_ms >= 0]
    plain = FlowStatus(
        flow=name,
        desired=Desired.RUNNING,
        paused_topics=(),
        topics=len({lane.lane.topic for lane in lanes}),
        lanes=len(lanes),
        unknown_lanes=0,
        lane_states=states,
        lag_records=sum(lane.lag_records for lane in lanes),
        least_lag_records=sum(lane.lag_records for lane in lanes),
        records=sum(lane.records for lane in lanes),
        wire_bytes=sum(lane.wire_bytes for lane in lanes),
        records_per_s=850.0,
        bytes_per_s=700_000.0,
        errors=states.get("failed", 0),
        waiting_for="",
        lag_bytes=sum(lane.lag_bytes for lane in lanes),
        least_lag_bytes=sum(lane.lag_bytes for lane in lanes),
        behind_since_ms=min(behind, default=-1),
        source_end_age_ms=400,
        append_latency=latency.snapshot(),
        replication_latency=latency.snapshot(),
        groups=GroupsReport(at_ms=wall_ms() - 1500, groups=9, how={"run": 15, "end": 2}, checkpoints=70, commits=80),
    )
    return msgspec.structs.replace(plain, **changes)


def recorded(now_ms: int, topics: int = 500) -> MirrorStatus:
    """Return a mirror of three flows: one with `topics` x 20 partitions, one with a silent broker, one that failed."""
    wide = [_lane(WIDE, f"orders.{topic:03d}", one, now_ms) for topic in range(topics) for one in range(PARTITIONS)]
    back = [_lane(BACK, "payments", one, now_ms) for one in range(12)]
    back[3] = _lane(BACK, "payments", 3, now_ms, reason=SILENT, source_end=1_025_000, behind_since_ms=now_ms - 42_000)
    cold = [_lane(COLD, "invoices", one, now_ms) for one in range(6)]
    cold[5] = _lane(COLD, "invoices", 5, now_ms, state="failed", reason=TOO_LARGE, behind_since_ms=now_ms - 95_000)
    lanes = {WIDE: wide, BACK: back, COLD: cold}
    proven = [LaneProof(topic="payments", partition=one, proven_from=0, proven_to=1_000_000) for one in range(12)]
    flows = (
        _flow(WIDE, wide),
        _flow(BACK, back, stalled=1, stall_reason=SILENT, stalled_for_it=1),
        _flow(COLD, cold, stalled=1, stall_reason=TOO_LARGE, stalled_for_it=1),
    )
    return MirrorStatus(
        namespace="raymirror-prod",
        version="0.1.0",
        config_path=FILE,
        config_digest="9b5c41d07e",
        desired=Desired.RUNNING,
        phase="running",
        at_ms=now_ms,
        up_s=86_400.0,
        instance_id="1f0c9a",
        flows=flows,
        copiers=tuple(_copier(flow, number, lanes[flow]) for flow in lanes for number in (1, 2)),
        events=tuple(_events(now_ms)),
        lanes=tuple(lane for some in lanes.values() for lane in some),
        topics=tuple(
            TopicStatus(flow=flow, topic=topic, records=100_000, wire_bytes=80_000_000, latency_ms=900_000)
            for flow, some in lanes.items()
            for topic in sorted({lane.lane.topic for lane in some})
        ),
        proofs={BACK: FlowProof(at_ms=now_ms - 12_000, took_s=3.0, records=9_000, partitions=12, lanes=tuple(proven))},
    )


def _copier(flow: str, number: int, lanes: list[LaneProgress]) -> CopierStatus:
    return CopierStatus(
        copier_id=f"{flow}/{number}",
        flow=flow,
        state=CopierState.READY,
        set_ids=tuple(f"{flow}/{one:03d}" for one in range(number - 1, 8, 2)),
        lanes=len(lanes) // 2,
        buffer_bytes=2**20,
        node="4f0c" * 14,
    )


def _events(now_ms: int) -> list[EventLine]:
    told: list[tuple[int, str, str, str, str]] = [
        (820, "info", WIDE, "copier_ready", f"copier {WIDE}/1 is ready, with 5,000 partitions"),
        (410, "warning", BACK, "lane_stalled", f"partition payments-3 makes no progress: {SILENT}"),
        (95, "error", COLD, "lane_failed", f"partition invoices-5 has stopped: {TOO_LARGE}"),
        (30, "info", WIDE, "copier_replaced", f"copier {WIDE}/2 hands its partitions over to a new one: restart"),
    ]
    return [
        EventLine(at_ms=now_ms - 1000 * ago_s, severity=severity, flow=flow, kind=kind, text=text)
        for ago_s, severity, flow, kind, text in told
    ]


class RecordedSupervisor:
    """Answers as a supervisor does, with a status that was recorded; what is wanted of a flow changes."""

    def __init__(self, status: MirrorStatus) -> None:
        self._status = status
        self.asked: list[tuple[Any, ...]] = []

    async def status(self, lanes: bool = False, _follower: str = "") -> bytes:
        now_ms = wall_ms()
        wave = 1 + 0.2 * math.sin(now_ms / 9000)
        flows = tuple(
            msgspec.structs.replace(
                flow,
                records_per_s=850 * wave,
                records=flow.records + now_ms // 1000 % 10**6,
                behind_since_ms=now_ms - 300 if flow.flow == WIDE else flow.behind_since_ms,
            )
            for flow in self._status.flows
        )
        status = msgspec.structs.replace(self._status, at_ms=now_ms, up_s=self._status.up_s + 1, flows=flows)
        return encode_status(status if lanes else msgspec.structs.replace(status, lanes=(), topics=()))

    async def command(self, command: str, flow: str | None, topics: tuple[str, ...]) -> bytes:
        self.asked.append(("command", command, flow, topics))
        wanted = {"pause": Desired.PAUSED, "resume": Desired.RUNNING, "stop": Desired.STOPPED}[command]
        changed = tuple(_commanded(one, wanted, topics) if one.flow == flow else one for one in self._status.flows)
        self._status = msgspec.structs.replace(self._status, flows=changed)
        return await self.status()

    async def restart(self, flow: str) -> None:
        self.asked.append(("restart", flow))

    async def restart_copiers(self, flow: str, copiers: tuple[str, ...]) -> None:
        self.asked.append(("restart_copiers", flow, copiers))

    async def change_settings(
        self, flow: str, changes: Mapping[str, str | None], _seen: Mapping[str, str] | None = None
    ) -> None:
        self.asked.append(("change_settings", flow, dict(changes)))

    async def file_plan(self) -> bytes:
        rows = (
            ChangeRow(flow=WIDE, change="changed"),
            ChangeRow(
                flow=WIDE,
                change="changed",
                key="east->west.topics",
                running="orders.*",
                new="orders.*, refunds",
                takes_effect="now; its copiers stay",
            ),
            ChangeRow(flow=BACK, change="untouched"),
        )
        return msgspec.msgpack.encode(ConfigDifference(running="9b5c41d07e", new="77ad3b", rows=rows))

    async def apply_present(self, digest: str) -> None:
        self.asked.append(("apply_present", digest))

    async def positions(self, flow: str) -> bytes:
        self.asked.append(("positions", flow))
        found = [lane for lane in self._status.lanes if lane.set_id.startswith(flow)]
        return msgspec.msgpack.encode(
            [
                StoredOffset(topic=lane.lane.topic, partition=lane.lane.partition, source_next=lane.source_next)
                for lane in found
            ]
        )


def _commanded(flow: FlowStatus, wanted: Desired, topics: tuple[str, ...]) -> FlowStatus:
    if not topics:
        return msgspec.structs.replace(flow, desired=wanted, may_return=wanted is Desired.STOPPED)
    others = set(flow.paused_topics) - set(topics)
    paused = others | set(topics) if wanted is Desired.PAUSED else others
    return msgspec.structs.replace(flow, paused_topics=tuple(sorted(paused)))


class _Pages:
    """Metrics and probes of a mirror that is fine."""

    async def metrics(self) -> str:
        return "# no metrics\n"

    def why_dead(self) -> str:
        return ""

    def why_not_ready(self) -> str:
        return ""


def past(status: MirrorStatus, minutes: int = 15) -> SeriesRing:
    """Return a series of the last minutes, in which the lag comes and goes."""
    ring, now_ms = SeriesRing(), status.at_ms
    histogram = LatencyHistogram()
    for step in range(minutes * 12):
        at_ms = now_ms - 5000 * (minutes * 12 - step)
        wave = 1 + math.sin(step / 9)
        for _ in range(50):
            histogram.add(8.0 + 3 * wave)
        histogram.add(40.0 + 30 * wave)
        flows = tuple(
            msgspec.structs.replace(
                flow,
                lag_records=int(400 * wave),
                behind_since_ms=at_ms - int(1500 * wave),
                records_per_s=850 + 100 * wave,
                bytes_per_s=700_000 + 90_000 * wave,
                append_latency=histogram.snapshot(),
                replication_latency=histogram.snapshot(),
            )
            for flow in status.flows
        )
        ring.note(msgspec.structs.replace(status, at_ms=at_ms, flows=flows))
    return ring


class RecordedLooks(CommandLooks):
    """What commands would print: a preview, a plan and an audit trail."""

    async def run(self, words: tuple[str, ...], place: AskedFrom = AskedFrom.HTTP) -> CommandOutcome:
        """Answer as the command would."""
        printed = {
            "dr": lambda: _OPERATIONS if words[1] == "history" else msgspec.json.encode(_preview(words[2])),
            "plan": lambda: json.dumps({"flows": [_PLAN]}).encode(),
            "audit": lambda: b"\n".join(msgspec.json.encode(row) for row in _audit()),
            "quarantine": lambda: _quarantine(words[1]),
            "move": lambda: msgspec.json.encode(_progress()),
        }[words[0]]()
        return CommandOutcome(code=0, printed=printed, said="", took_seconds=0.4)


_OPERATIONS = json.dumps(
    {
        "operations": [
            {"id": "op-1", "kind": "switchover", "flow": BACK, "state": "aborted", "began_ms": 1, "why": "told to"}
        ],
        "failovers": [{"flow": BACK, "at_ms": 2, "stands": False, "text": "with 3 records not copied", "who": ""}],
        "failovers_unread": {},
        "away": {},
    }
).encode()
_PLAN = {
    "changes": [
        {
            "change": "set_config",
            "topic": "orders.007",
            "target": "east.orders.007",
            "name": "retention.ms",
            "value": "86400000",
            "before": "604800000",
            "overrides": True,
            "why": "the source has it",
        }
    ],
    "topics": 500,
}


def _preview(flow: str) -> DrPreview:
    def loss(topic: str, records: int, seconds: float) -> TopicLoss:
        return TopicLoss(
            topic=topic,
            partitions=20,
            records=records,
            bytes=700 * records,
            seconds=seconds,
            torn=0,
            is_exact=True,
            unknown=0,
        )

    stands = [
        GroupPartitionStatus(group=group, topic=topic, partition=one, source_offset=at, target_offset=to, stored=there)
        for group, topic, one, at, to, there in (
            ("billing", "orders.007", 3, 1_000_000, 1_000_004, 1_000_004),
            ("billing", "orders.007", 4, 1_031_676, 1_031_680, 1_031_420),
            ("search", "orders.012", 0, 998_112, 998_116, -1),
        )
    ]
    late = msgspec.structs.replace(stands[2], partition=1, why="its partition is not drained")
    return DrPreview(
        flow=flow,
        at_ms=wall_ms(),
        source="",
        losses=(loss("orders.007", 1204, 4.2), loss("orders.012", 3, 0.4), loss("orders.013", 0, 0.0)),
        standing=GroupStatus(groups=9, stands=(*stands, late)),
        readiness=Readiness(
            unready=(
                Unready(
                    name=UnreadyName.RIGHT, subject="User:billing", why="has no Write on topic orders.007 of the target"
                ),
            )
        ),
    )


def _audit() -> list[AuditRow]:
    return [
        AuditRow(
            at_ms=wall_ms() - 60_000 * ago,
            run=f"8c1d{ago}",
            flow=WIDE,
            who="raymirror",
            topic=f"orders.{ago:03d}",
            target=f"east.orders.{ago:03d}",
            change="set_config",
            name="retention.ms",
            before="604800000",
            after="86400000",
            why="the source has it",
        )
        for ago in range(240, 0, -1)
    ]


def _progress() -> MoveProgress:
    groups = tuple(
        MigratingGroup(
            group=group, part=part, kind="consumer", source_state="empty", target_state="missing", topics=("payments",)
        )
        for group, part in (("billing", GroupPart.STOPPED), ("search", GroupPart.MOVED))
    )
    return MoveProgress(flow=BACK, topics=(), groups=groups)


def _quarantine(action: str) -> bytes:
    rows = [
        RefusedFacts(
            record=f"invoices-5@{1_204_118 + at}",
            state=state,
            topic="invoices",
            partition=5,
            offset=1_204_118 + at,
            topic_id="",
            target_topic="east.invoices",
            target_offset=-1,
            timestamp_ms=wall_ms() - 90_000,
            error_code=10,
            error="The request included a message larger than the max message size the server will accept.",
            left_out_at_ms=wall_ms() - 80_000,
            done_at_ms=-1,
            held=state == "held",
            key_bytes=4,
            value_bytes=1_300_000,
            headers=1,
        )
        for at, state in enumerate(("held", "held", "skipped"))
    ]
    if action == "list":
        return msgspec.json.encode(PrintedRefused(flows=(RefusedOfFlow(flow=COLD, records=tuple(rows)),)))
    contents = RecordContents(
        key=RecordBytes(text="4711"),
        value=RecordBytes(text="<b>not markup</b>" + "x" * 30_000),
        headers=(RecordHeader(name=RecordBytes(text="trace"), value=RecordBytes(base64="/w==")),),
    )
    one = RefusedContents(**msgspec.structs.asdict(rows[0]), contents=contents)
    return msgspec.json.encode(PrintedContents(records=(one,)))


class RecordedMirror:
    """The HTTP server of a recorded mirror."""

    def __init__(self, config: HttpConfig, status: MirrorStatus) -> None:
        properties = parse_properties(CONFIG, FILE)
        settings = read_config(properties)
        facts = MirrorFacts(
            api=api_facts(settings),
            connectors=connectors_of(settings, plain_settings(properties)),
            version="0.1.0",
            config_path=FILE,
            host=f"localhost:{config.port}",
            node="n",
        )
        self.supervisor = RecordedSupervisor(status)
        self.sessions, self.runs = SessionBook(), RecordedRuns()
        views = SupervisorViews(self.supervisor, _Pages(), facts, past(status), RecordedLooks(), self.runs)
        self.server = MirrorServer(config, views, self.sessions)
        self.port = config.port
        self.url = f"http://127.0.0.1:{config.port}"


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        asyncio.run(RecordedMirror(HttpConfig(port=int(sys.argv[1])), recorded(wall_ms())).server.run())
