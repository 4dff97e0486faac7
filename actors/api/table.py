"""The table of the routes of `/api/v1`."""

from typing import Any, Final

from actors.api import looks, partitions, runs, seeing, steering
from actors.api.commands import answers, look_words
from actors.api.commands.pages import (
    DriftPage,
    EndsPage,
    MovesPage,
    RefusedContentsPage,
    RefusedPage,
    SqlPage,
    TablesPage,
    TranslationPage,
)
from actors.api.entities import (
    Accepted,
    AuditPage,
    Caller,
    EventPage,
    FailoverPreview,
    FilePlan,
    FlowSeries,
    FlowSettings,
    FlowSummary,
    GroupsPage,
    HistoryPage,
    MirrorPage,
    PartitionPage,
    PlanToApply,
    ProofPage,
    SettingChanges,
    SomeCopiers,
    SomeTopics,
    SyncPlanPage,
    TopicPage,
)
from actors.api.orders import RULES
from actors.api.queries import LIMIT, PAGE_QUERY, SINCE
from actors.api.runs import CommandRun, RunPage, StoredOperationsPage
from actors.api.view import ApiNeed
from actors.model.run_kinds import RunKind
from actors.model.status import MirrorStatus
from actors.rest.exchange import EVENT_STREAM
from actors.rest.routes import HttpHandler, HttpRoute
from actors.rest.target import QueryParameter
from policies.roles import Role

_ROOT: Final = "/api/v1"
_FLOW: Final = f"{_ROOT}/flows/{{flow}}"
_TAG: Final = "Mirror"
_LOOK: Final[dict[str, Any]] = {"within_s": 90.0, "is_large": True}
"""A command has a minute; its answer may be large."""
_TOPICS: Final = QueryParameter(name="topic", meaning="a source topic; may be given several times")
_RECORDS: Final = QueryParameter(
    name="record", meaning="a record: `TOPIC-PARTITION@OFFSET`; may be given several times"
)
_ONE_FLOW: Final = QueryParameter(name="flow", meaning="only of this flow")
START_S: Final = 60.0
"""Seconds until a command that was started is answered: it has begun its first step, or has refused, long before."""
RELOAD_S: Final = 120.0
"""Seconds until a reload is answered; it goes on after them."""


def _get(path: str, summary: str, handler: HttpHandler, gives: Any, **more: Any) -> HttpRoute:
    usual: dict[str, Any] = {"need": ApiNeed.STATUS, "tag": _TAG}
    return HttpRoute(method="GET", template=path, summary=summary, handler=handler, gives={200: gives}, **usual | more)


def _start(kind: RunKind, summary: str, role: Role = Role.ADMIN) -> HttpRoute:
    return HttpRoute(
        method="POST",
        template=f"{_FLOW}/{RULES[kind].path}",
        summary=summary,
        handler=runs.Starter(kind),
        query=(runs.RESULT, runs.AT_ONCE),
        role=role,
        need=ApiNeed.RUNS,
        takes=RULES[kind].order,
        gives={202: CommandRun},
        tag=_TAG,
        within_s=START_S,
    )


def _command(path: str, summary: str, handler: HttpHandler, **more: Any) -> HttpRoute:
    usual: dict[str, Any] = {
        "method": "POST",
        "role": Role.OPERATE,
        "need": ApiNeed.STATUS,
        "tag": _TAG,
        "needs_body": False,
    }
    return HttpRoute(template=path, summary=summary, handler=handler, gives={202: Accepted}, **usual | more)


API_ROUTES: Final[tuple[HttpRoute, ...]] = (
    _get(f"{_ROOT}/me", "Who asks, and what they may do", seeing.me, Caller),
    _get(f"{_ROOT}/mirror", "The mirror, its clusters and flows", seeing.mirror, MirrorPage),
    _get(
        f"{_ROOT}/status",
        "The status, as `raymirror status --json` prints it",
        seeing.status,
        MirrorStatus,
        need=ApiNeed.ASKED,
        is_large=True,
        query=(seeing.PARTITIONS,),
    ),
    _get(f"{_ROOT}/flows", "All flows", seeing.flows, tuple[FlowSummary, ...]),
    _get(_FLOW, "A flow", seeing.flow, FlowSummary),
    _get(
        f"{_FLOW}/topics",
        "Its topics",
        partitions.topics,
        TopicPage,
        need=ApiNeed.LANES,
        is_large=True,
        query=(*partitions.LIST_QUERY, *PAGE_QUERY),
    ),
    _get(
        f"{_FLOW}/partitions",
        "Its partitions, and why one stands still",
        partitions.partitions,
        PartitionPage,
        need=ApiNeed.LANES,
        is_large=True,
        query=(QueryParameter(name="topic", meaning="only this topic"), *partitions.LIST_QUERY, *PAGE_QUERY),
    ),
    _get(f"{_FLOW}/groups", "Its consumer groups, as of the last round", seeing.groups, GroupsPage),
    _get(
        f"{_FLOW}/series",
        "Its lag, throughput and latency of the last 15 minutes",
        seeing.series,
        FlowSeries,
        query=(SINCE,),
    ),
    _get(
        f"{_FLOW}/proofs",
        "What the continuous proof knows about its partitions",
        partitions.proofs,
        ProofPage,
        need=ApiNeed.LANES,
        is_large=True,
        query=(partitions.NAME_PART, *PAGE_QUERY),
    ),
    _get(f"{_FLOW}/settings", "Its settings, without passwords", seeing.settings, FlowSettings),
    _get(
        f"{_FLOW}/history",
        "Its lag of hours and days, where it is kept",
        looks.history,
        HistoryPage,
        need=ApiNeed.HISTORY,
        query=(SINCE, look_words.HISTORY_TOPICS),
        **_LOOK,
    ),
    _get(
        f"{_FLOW}/plan",
        "What differs in topics, configs and ACLs; asks both clusters",
        looks.sync_plan,
        SyncPlanPage,
        need=ApiNeed.SYNC_PLAN,
        **_LOOK,
    ),
    _get(
        f"{_FLOW}/failover-preview",
        "What a failover would lose now; asks both clusters",
        looks.failover_preview,
        FailoverPreview,
        need=ApiNeed.PREVIEW,
        **_LOOK,
    ),
    _get(
        f"{_FLOW}/operations",
        "Its switchovers, failbacks and failovers, as they are stored; asks both clusters",
        runs.operations,
        StoredOperationsPage,
        need=ApiNeed.OPERATIONS,
        **_LOOK,
    ),
    _get(
        f"{_FLOW}/quarantine",
        "Its records that the target refused, without their contents",
        answers.refused,
        RefusedPage,
        need=ApiNeed.REFUSED,
        query=(_TOPICS, _RECORDS, look_words.ALL, *PAGE_QUERY),
        **_LOOK,
    ),
    _get(
        f"{_FLOW}/quarantine/contents",
        "Some of them, with key, value and headers",
        answers.contents,
        RefusedContentsPage,
        need=ApiNeed.CONTENTS,
        role=Role.OPERATE,  # no other route shows what records contain
        query=(_TOPICS, _RECORDS),
        **_LOOK,
    ),
    _get(
        f"{_FLOW}/translation",
        "The exact target offsets of a consumer group; asks both clusters",
        answers.translation,
        TranslationPage,
        need=ApiNeed.TRANSLATION,
        query=(QueryParameter(name="group", meaning="the consumer group's id"),),
        **_LOOK,
    ),
    _get(
        f"{_FLOW}/moves",
        "Which groups and topics have moved to its target, and what is left; asks both clusters",
        answers.moves,
        MovesPage,
        need=ApiNeed.MOVES,
        **_LOOK,
    ),
    _get(
        f"{_FLOW}/ends",
        "Where its partitions end on both clusters, and why not at the same offset",
        answers.ends,
        EndsPage,
        need=ApiNeed.ENDS,
        query=(_TOPICS, *PAGE_QUERY),
        **_LOOK,
    ),
    _get(f"{_FLOW}/runs", "Commands that requests have started for it", runs.runs, RunPage, need=ApiNeed.RUNS),
    _get(
        f"{_FLOW}/runs/{{run}}",
        "One of them: its steps and, at its end, its result",
        runs.run,
        CommandRun,
        need=ApiNeed.RUNS,
    ),
    _get(
        f"{_ROOT}/audit",
        "Who changed what on the copies, newest first",
        looks.audit,
        AuditPage,
        need=ApiNeed.AUDIT,
        query=(SINCE, _ONE_FLOW, QueryParameter(name="about", meaning="only this topic"), *PAGE_QUERY),
        **_LOOK,
    ),
    _get(
        f"{_ROOT}/drift",
        "Configs of copies that somebody changed, and whether they were set right",
        answers.drift,
        DriftPage,
        need=ApiNeed.DRIFT,
        query=(
            SINCE,
            _ONE_FLOW,
            QueryParameter(
                name="topic",
                meaning="names of topics or of copies: patterns as in `topics` of the file, separated by commas",
            ),
            *PAGE_QUERY,
        ),
        **_LOOK,
    ),
    _get(
        f"{_ROOT}/tables",
        "The tables of results",
        answers.tables,
        TablesPage,
        need=ApiNeed.TABLES,
        **_LOOK,
    ),
    _get(
        f"{_ROOT}/sql",
        "The answer of the tables to one SELECT",
        answers.sql,
        SqlPage,
        need=ApiNeed.SQL,
        query=(QueryParameter(name="q", meaning="the query, one SELECT"), LIMIT),
        **_LOOK,
    ),
    _get(
        f"{_ROOT}/report",
        "Lag, latency, throughput and breaches of the objective, as a page",
        answers.report,
        str,
        content_type=answers.HTML,
        need=ApiNeed.REPORT,
        query=(SINCE, _ONE_FLOW),
        **_LOOK,
    ),
    _get(f"{_ROOT}/plan", "What a reload of the file would change", looks.file_plan, FilePlan, need=ApiNeed.FILE_PLAN),
    _get(
        f"{_ROOT}/events",
        "The newest events, oldest first",
        seeing.events,
        EventPage,
        query=(SINCE, _ONE_FLOW, seeing.SEVERITY, seeing.EVENTS_LIMIT),
    ),
    _get(
        f"{_ROOT}/stream",
        "Live: a snapshot, then what changes, as server-sent events",
        seeing.stream,
        str,
        content_type=EVENT_STREAM,
    ),
    _command(f"{_ROOT}/mirror/pause", "Pause all flows, or some topics", steering.pause, takes=SomeTopics),
    _command(
        f"{_ROOT}/mirror/resume",
        "Resume all flows, or some topics",
        steering.resume,
        takes=SomeTopics,
        need=ApiNeed.RUNS,
    ),
    _command(f"{_ROOT}/mirror/stop", "Stop the mirror, which then ends", steering.stop),
    _command(f"{_FLOW}/pause", "Pause a flow, or some topics of it", steering.pause, takes=SomeTopics),
    _command(
        f"{_FLOW}/resume",
        "Resume a flow, or some topics of it",
        steering.resume,
        takes=SomeTopics,
        query=(look_words.FAILED_OVER,),
        need=ApiNeed.OPEN_OPERATION,
        within_s=90.0,
    ),
    _command(f"{_FLOW}/stop", "Stop a flow; its mirror stays", steering.stop),
    _command(
        f"{_FLOW}/restart",
        "Replace its copiers, one by one, or some of them",
        steering.restart,
        takes=SomeCopiers,
        need=ApiNeed.RUNS,
    ),
    _start(RunKind.FAILOVER, "Fail it over, as `raymirror failover` does"),
    _start(RunKind.SWITCHOVER, "Switch it over, or only check whether that is possible"),
    _start(RunKind.FAILBACK, "Give its source what only its target has, or only count that"),
    _start(RunKind.DRILL, "Rehearse a failover of it"),
    _start(RunKind.RESUME, "Go on with a switchover that has not ended"),
    _start(RunKind.ABORT, "Take back a switchover that has not ended"),
    _start(RunKind.VERIFY, "Prove record by record that its copy is complete", Role.OPERATE),
    _start(RunKind.APPLY, "Bring topics, configs and ACLs of its copies in step, once"),
    _start(RunKind.REPLAY, "Append records that the target refused to their copies"),
    _start(RunKind.DROP, "Give records up that the target refused: their contents are removed"),
    _start(RunKind.TRANSLATE, "Commit the translated offsets of a consumer group on the target"),
    _start(RunKind.MOVE, "Move a consumer group to the target, or only look whether that is possible"),
    _start(RunKind.MOVE_UNDO, "Take the move of a consumer group back"),
    _start(RunKind.MOVE_TOPICS, "Move all producers of topics to the target, after their consumers"),
    HttpRoute(
        method="DELETE",
        template=f"{_FLOW}/runs/{{run}}",
        summary="End one of its runs, as an operator ends a command at its terminal",
        handler=runs.end,
        role=Role.ADMIN,
        need=ApiNeed.RUNS,
        needs_state=False,  # it may hang because the target is away
        query=(runs.KILL,),
        gives={202: CommandRun},
        tag=_TAG,
    ),
    _command(
        f"{_ROOT}/reload",
        "Apply the file on disk, as `raymirror reload` does",
        steering.reload,
        role=Role.ADMIN,
        takes=PlanToApply,
        needs_body=True,
        within_s=RELOAD_S,
    ),
    _command(
        f"{_FLOW}/settings",
        "Change settings, in the mirror's file too",
        steering.change_settings,
        method="PATCH",
        role=Role.ADMIN,
        takes=SettingChanges,
        needs_body=True,
    ),
)
