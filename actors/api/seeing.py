"""Answers what a mirror is and does: the mirror, its flows, groups, events and series."""

from typing import Final

from actors.api.entities import Caller, EventPage, FlowSettings, GroupsPage, LatencySummary
from actors.api.judging import groups_not_ready
from actors.api.queries import since_of, text
from actors.api.summaries import flow_summary, page_of, short_name
from actors.api.view import ApiView
from actors.model.status import EVENTS_KEPT, FlowStatus, MirrorStatus
from actors.observability.sentences import groups_text
from actors.rest.exchange import EVENT_STREAM, FollowStream, HttpAnswer, HttpCall, HttpRefusal
from actors.rest.target import ChoiceParameter, CountParameter, FlagParameter
from engine.core.reports.quantiles import quantile
from policies.words import counted

SEVERITIES = ("info", "warning", "error")
SEVERITY: Final = ChoiceParameter(
    name="severity", meaning="only events of this severity and higher", values=SEVERITIES, usual=SEVERITIES[0]
)
EVENTS_LIMIT: Final = CountParameter(
    name="limit", meaning="how many to return, the newest", usual=EVENTS_KEPT, most=EVENTS_KEPT
)
PARTITIONS: Final = FlagParameter(name="partitions", meaning="`true`: all partitions too")


def me(call: HttpCall, view: ApiView) -> HttpAnswer:
    """Return who asks, and what they may do."""
    return HttpAnswer(body=Caller(user=call.user, role=call.role, mirror=short_name(view.present)))


def mirror(_call: HttpCall, view: ApiView) -> HttpAnswer:
    """Return the mirror with its clusters and flows."""
    return HttpAnswer(body=page_of(view))


def flows(_call: HttpCall, view: ApiView) -> HttpAnswer:
    """Return all flows."""
    return HttpAnswer(body=tuple(flow_summary(view, flow) for flow in view.present.flows))


def flow(call: HttpCall, view: ApiView) -> HttpAnswer:
    """Return a flow."""
    return HttpAnswer(body=flow_summary(view, view.named_flow(call)))


def status(_call: HttpCall, view: ApiView) -> HttpAnswer:
    """Return the status as commands show it."""
    return HttpAnswer(body=view.present)


def settings(call: HttpCall, view: ApiView) -> HttpAnswer:
    """Return the settings of a flow, as of its source connector."""
    name = view.named_flow(call).flow
    known = (*view.connectors.values(), *view.deleted.values())
    found = next((one.config for one in known if one.flow == name), None)
    if found is None:
        raise HttpRefusal(409, f"The settings of flow {name} are not known: its removal is not complete yet")
    plain = {key: value for key, value in found.items() if key not in ("name", "connector.class")}
    return HttpAnswer(body=FlowSettings(flow=name, settings=plain))


def series(call: HttpCall, view: ApiView) -> HttpAnswer:
    """Return the series of a flow."""
    name = view.named_flow(call).flow
    return HttpAnswer(body=view.ring.columns(name, since_of(call, view.present.at_ms)))


def events(call: HttpCall, view: ApiView) -> HttpAnswer:
    """Return the newest events that match, oldest first."""
    present = view.present
    since_ms, wanted_flow = since_of(call, present.at_ms), text(call, "flow")
    least = SEVERITIES.index(SEVERITY.read(call))
    limit = EVENTS_LIMIT.read(call)
    found = [
        event
        for event in present.events
        if event.at_ms >= since_ms and wanted_flow in ("", event.flow) and SEVERITIES.index(event.severity) >= least
    ]
    shown = tuple(found[-limit:] if limit else ())
    return HttpAnswer(body=EventPage(from_ms=_events_from(present), total=len(found), events=shown))


def _events_from(present: MirrorStatus) -> int:
    """Return since when the mirror has all events (Unix ms)."""
    if len(present.events) >= EVENTS_KEPT:
        return present.events[0].at_ms
    return present.at_ms - round(1000 * present.up_s)


def stream(call: HttpCall, _view: ApiView) -> HttpAnswer:
    """Return what the live stream begins with; it is sent by the server."""
    return HttpAnswer(content_type=EVENT_STREAM, follow=FollowStream(call.last_event_id, call.user))


def groups(call: HttpCall, view: ApiView) -> HttpAnswer:
    """Return what the last round of consumer groups knows."""
    named = view.named_flow(call)
    report = named.groups
    why_not = _why_not(named)
    counts = report.latency.counts if report is not None else ()
    return HttpAnswer(
        body=GroupsPage(
            flow=named.flow,
            at_ms=view.present.at_ms,
            ready=not why_not,
            why_not=why_not,
            sentence=groups_text(named).removeprefix("groups: ") or "no consumer group is mirrored",
            latency=LatencySummary(p50_ms=quantile(counts, 0.5), p99_ms=quantile(counts, 0.99)),
            report=report,
        )
    )


def _why_not(named: FlowStatus) -> tuple[str, ...]:
    """Return what speaks against a move of the consumers to the target now, as far as the mirror knows."""
    found, report = groups_not_ready(named), named.groups
    if report is None or not report.at_ms:
        return found
    if named.lag_records is None:
        return (*found, "the lag of the flow is not known")
    return (*found, f"{counted(named.lag_records, 'record')} not copied yet") if named.lag_records else found
