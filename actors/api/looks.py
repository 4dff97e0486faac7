"""Answers what a command finds out in a process of its own: plans, previews, the audit trail, the history of lag.

The command is the one of the command line, so both say the same. It has the clients of Kafka and of tables, which the
supervisor does not need, and it keeps nobody waiting: it runs with less priority, and its memory goes with it.
"""

from typing import Any

import msgspec

from actors.api.commands.look_words import decoded, decoded_lines, printed, took
from actors.api.entities import (
    AuditPage,
    FailoverPreview,
    FileChange,
    FilePlan,
    HistoryPage,
    LossTotal,
    SyncPlanPage,
)
from actors.api.queries import part_of, text
from actors.api.view import ApiNeed, ApiView
from actors.config.difference import ConfigDifference
from actors.observability.losses import loss_text
from actors.rest.exchange import HttpAnswer, HttpCall
from engine.flow.config_sync.audit import AuditRow
from engine.flow.config_sync.planning import SyncPlan
from engine.flow.surveys.dr_preview import DrPreview


def failover_preview(_call: HttpCall, view: ApiView) -> HttpAnswer:
    """Return what a failover would lose now."""
    found = printed(ApiNeed.PREVIEW, view)
    preview = decoded(found, DrPreview)
    losses = preview.losses
    known = [one for one in losses if one.is_known]
    seconds = [one.seconds for one in known if one.records]
    unknown = sum(one.unknown for one in losses)
    is_age_known = not (unknown or preview.source or preview.unread or any(one < 0 for one in seconds))
    not_exact = {one.group for one in preview.unequal} | preview.standing.failed.keys()
    return HttpAnswer(
        body=FailoverPreview(
            flow=preview.flow,
            at_ms=preview.at_ms,
            took_seconds=took(found),
            sentence=loss_text(preview),
            whole=preview.is_whole,
            equal=preview.is_equal,
            loss=LossTotal(
                records=sum(one.records for one in known),
                bytes=sum(one.bytes for one in known),
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
    return HttpAnswer(
        body=SyncPlanPage(flow=call.path["flow"], took_seconds=took(found), changes=len(plan.changes), plan=plan)
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
    rows = decoded_lines(found.printed, AuditRow) if found is not None else []
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
