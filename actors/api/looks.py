"""Answers what a command finds out in a process of its own: plans, previews, the audit trail, the history of lag.

The command is the one of the command line, so both say the same. It has the clients of Kafka and of tables, which the
supervisor does not need, and it keeps nobody waiting: it runs with less priority, and its memory goes with it.
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from actors.api.entities import (
    AuditPage,
    FailoverPreview,
    FileChange,
    FilePlan,
    HistoryPage,
    LossTotal,
    SyncPlanPage,
)
from actors.api.queries import number, part_of, since_of, text
from actors.api.view import ApiNeed, ApiView
from actors.config.difference import ConfigDifference
from actors.observability.losses import loss_text
from actors.rest.exchange import HttpAnswer, HttpCall, HttpRefusal
from engine.flow.config_sync.audit import AuditRow
from engine.flow.config_sync.planning import SyncPlan
from engine.flow.surveys.dr_preview import DrPreview

USUAL_TOPICS: Final = 20
MOST_TOPICS: Final = 100
_AUDIT_SINCE: Final = "7d"
_HISTORY_SINCE: Final = "1h"
_FINE: Final[Mapping[ApiNeed, tuple[int, ...]]] = {
    ApiNeed.PREVIEW: (0, 4),
    ApiNeed.SYNC_PLAN: (0, 1, 5),
    ApiNeed.HISTORY: (0,),
    ApiNeed.AUDIT: (0,),
    ApiNeed.OPERATIONS: (0,),
    ApiNeed.OPEN_OPERATION: (0, 1),
}
"""The exit codes with which a command has printed what it has found (`actors/cli/common/exits.py`)."""


class CommandOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """How a command ended: its exit code, what it printed, what it said on standard error, how long it took."""

    code: int
    printed: bytes
    said: str
    took_seconds: float


def words_of(need: ApiNeed, call: HttpCall, view: ApiView) -> tuple[str, ...]:
    """Return the command that finds out what a route needs; none if there is nothing to find. Raises HttpRefusal."""
    path, now_ms = view.config_path, view.present.at_ms
    match need:
        case ApiNeed.PREVIEW:
            return ("dr", "preview", view.named_flow(call).flow, "--config", path, "--json")
        case ApiNeed.SYNC_PLAN:
            return ("plan", path, view.named_flow(call).flow, "--json")
        case ApiNeed.HISTORY if view.facts.storage:
            flow, since = view.named_flow(call).flow, _instant(since_of(call, now_ms, _HISTORY_SINCE))
            topics = number(call, "topics", USUAL_TOPICS, most=MOST_TOPICS)
            more = ("--since", since, "--most-topics", str(topics), "--config", path, "--json")
            return ("lag", flow, "--history", *more)
        case ApiNeed.OPERATIONS:
            return ("dr", "history", view.operated_flow(call), "--config", path, "--json")
        case ApiNeed.OPEN_OPERATION if view.named_flow(call).failed_over and call.flag("failed_over"):
            return ("dr", "status", view.named_flow(call).flow, "--config", path, "--json")
        case ApiNeed.RUNS if "flow" in call.path:
            view.operated_flow(call)
            return ()
        case ApiNeed.AUDIT if view.facts.storage:
            part_of(call)  # what cannot be read is refused before anything runs
            since = _instant(since_of(call, now_ms, _AUDIT_SINCE))
            return ("audit", path, "--since", since, "--json")
        case _:
            if "flow" in call.path:
                view.named_flow(call)
            return ()


def _instant(at_ms: int) -> str:
    """Return a Unix time (ms) as commands read it, to 10 s, so that requests of one moment share a run.

    Raises HttpRefusal (400) if there is no such date.
    """
    try:
        return datetime.fromtimestamp(at_ms // 10_000 * 10, UTC).isoformat()
    except (ValueError, OverflowError, OSError):
        raise HttpRefusal(400, f"since={at_ms} is no date") from None


def printed(need: ApiNeed, view: ApiView) -> CommandOutcome | None:
    """Return what a command has printed, perhaps nothing; None if none ran. Raises HttpRefusal (409) if it failed."""
    found = view.found
    if not isinstance(found, CommandOutcome):
        return None
    if found.code not in _FINE[need] or (found.code and not found.printed.strip()):
        raise HttpRefusal(409, found.said or f"The command ended with exit code {found.code} and said nothing")
    return found


def failover_preview(_call: HttpCall, view: ApiView) -> HttpAnswer:
    """Return what a failover would lose now."""
    found = printed(ApiNeed.PREVIEW, view)
    preview = decoded(found, DrPreview)
    losses = preview.losses
    seconds = [one.seconds for one in losses if one.records]
    unknown = sum(one.unknown for one in losses)
    is_age_known = not (unknown or preview.source or preview.unread or any(one < 0 for one in seconds))
    not_exact = {one.group for one in preview.unequal} | preview.standing.failed.keys()
    return HttpAnswer(
        body=FailoverPreview(
            flow=preview.flow,
            at_ms=preview.at_ms,
            took_seconds=found.took_seconds if found is not None else 0.0,
            sentence=loss_text(preview),
            whole=preview.is_whole,
            equal=preview.is_equal,
            loss=LossTotal(
                records=sum(one.records for one in losses),
                bytes=sum(one.bytes for one in losses),
                seconds=max(seconds, default=0.0) if is_age_known else None,
                exact=all(one.is_exact for one in losses),
                unknown_partitions=unknown,
            ),
            groups=preview.standing.groups,
            groups_not_exact=tuple(sorted(not_exact)),
            preview=preview,
        )
    )


class PrintedPlans(msgspec.Struct, frozen=True):
    """What `raymirror plan --json` prints; each flow also has its name."""

    flows: tuple[SyncPlan, ...]


def sync_plan(call: HttpCall, view: ApiView) -> HttpAnswer:
    """Return what differs in topics, configs and ACLs of a flow."""
    found = printed(ApiNeed.SYNC_PLAN, view)
    (plan,) = decoded(found, PrintedPlans).flows
    took = found.took_seconds if found is not None else 0.0
    return HttpAnswer(
        body=SyncPlanPage(flow=call.path["flow"], took_seconds=took, changes=len(plan.changes), plan=plan)
    )


def history(call: HttpCall, view: ApiView) -> HttpAnswer:
    """Return the history of the lag of a flow."""
    found = printed(ApiNeed.HISTORY, view)
    summary = decoded(found, dict[str, Any]) if found is not None else None
    return HttpAnswer(body=HistoryPage(flow=call.path["flow"], kept=view.facts.storage, summary=summary))


def audit(call: HttpCall, view: ApiView) -> HttpAnswer:
    """Return what was changed on the copies, newest first."""
    found, part = printed(ApiNeed.AUDIT, view), part_of(call)
    flow, about = text(call, "flow"), text(call, "about")
    rows = _decoded_lines(found.printed, AuditRow) if found is not None else []
    wanted = [row for row in reversed(rows) if flow in ("", row.flow) and about in ("", row.topic, row.target)]
    return HttpAnswer(body=AuditPage(kept=view.facts.storage, total=len(wanted), rows=tuple(part.of(wanted))))


def file_plan(_call: HttpCall, view: ApiView) -> HttpAnswer:
    """Return what a reload of the file on disk would change."""
    found = view.found
    if not isinstance(found, ConfigDifference):
        found = ConfigDifference(running=view.present.config_digest, new="")
        return HttpAnswer(body=_plan_of(view, found, error=str(view.found)))
    return HttpAnswer(body=_plan_of(view, found, error=""))


def _plan_of(view: ApiView, found: ConfigDifference, error: str) -> FilePlan:
    return FilePlan(
        config_path=view.present.config_path,
        running=found.running,
        new=found.new,
        edited=found.running != found.new,
        changes=tuple(
            FileChange(
                flow=row.flow,
                change=row.change,
                key=row.key,
                running=row.running,
                new=row.new,
                takes_effect=row.takes_effect,
            )
            for row in found.rows
        ),
        refused=found.refused,
        error=error,
    )


def decoded(found: CommandOutcome | None, kind: Any) -> Any:
    """Read what a command has printed. Raises HttpRefusal (409)."""
    try:
        return msgspec.json.decode(found.printed if found is not None else b"", type=kind)
    except msgspec.MsgspecError:
        raise _cut_off() from None


def _decoded_lines(data: bytes, kind: type[AuditRow]) -> list[AuditRow]:
    """Read what a command has printed, an object a line. Raises HttpRefusal (409)."""
    try:
        return msgspec.json.Decoder(kind).decode_lines(data)
    except msgspec.MsgspecError:
        raise _cut_off() from None


def _cut_off() -> HttpRefusal:
    return HttpRefusal(409, "The command has not printed everything; ask again, or for less")
