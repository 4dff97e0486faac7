"""Answers commands: pause, resume, stop and restart, of the mirror or of a flow, and changes of settings."""

import msgspec

from actors.api.commands.look_words import FAILED_OVER, decoded, printed
from actors.api.entities import Accepted, SettingChanges, SomeCopiers, SomeTopics
from actors.api.runs import refuse_beside, running_of
from actors.api.view import ApiNeed, ApiView
from actors.model.requests import ApplyFile, ChangeSettings, GiveCommand, RestartCopiers, RestartFlow
from actors.model.states import Command, ReverseNow, StopKind, reverse_stands_text, turned_text
from actors.rest.exchange import Deed, HttpAnswer, HttpCall, HttpRefusal
from policies.dr.advice import DR_STATUS, FORGET_FAILOVER, RESUME
from policies.dr.operation_commands import goes_on
from policies.dr.operations import DrOperation


def pause(call: HttpCall, view: ApiView) -> HttpAnswer:
    """Pause all flows, a flow, or some topics of it."""
    return _give(call, view, Command.PAUSE)


def resume(call: HttpCall, view: ApiView) -> HttpAnswer:
    """Resume all flows, a flow, or some topics of it; partitions that had stopped on an error try again.

    Raises HttpRefusal: 400 for a flow that was failed over, unless the query says that its failover be forgotten; 409
    while a command runs for it, and if a failover is to be forgotten in the middle of an operation, or while a later
    one of the reverse flow stands, or that flow copies after a switchover.
    """
    answer = _give(call, view, Command.RESUME)
    flows = [view.named_flow(call).flow] if "flow" in call.path else [one.flow for one in view.present.flows]
    refuse_beside(running_of(view.runs), *flows)
    if "flow" not in call.path or not view.named_flow(call).failed_over:
        return answer
    name = view.named_flow(call).flow
    if not FAILED_OVER.read(call):
        raise HttpRefusal(
            400,
            f"Flow {name} was failed over: its consumers use the target now. To copy again all the same:"
            f" {RESUME.given(name, FORGET_FAILOVER.given())}",
        )
    _refuse_forgetting(view, name)
    return msgspec.structs.replace(answer, deeds=(GiveCommand(Command.FORGET, name), *answer.deeds))


def _refuse_forgetting(view: ApiView, flow: str) -> None:
    """Refuse to forget a failover in the middle of an operation, or while the reverse flow keeps the stop.

    Raises HttpRefusal (409), also if operations cannot be read.
    """
    read = decoded(printed(ApiNeed.OPEN_OPERATION, view), FoundOperation)
    if read.reverse is ReverseNow.FAILED_OVER:
        raise HttpRefusal(409, f"The failover of {flow} is not forgotten: {reverse_stands_text(flow)}")
    if read.reverse is ReverseNow.COPIES:
        raise HttpRefusal(409, f"The stop of {flow} is not forgotten: {turned_text(flow, StopKind.SWITCHOVER)}")
    if read.reverse is ReverseNow.UNKNOWN:
        why = "; ".join(read.failovers_unread.values()) or "what both clusters store cannot be read"
        raise HttpRefusal(409, f"Whether the reverse of {flow} copies is not known, and both would be a loop: {why}")
    found = read.operation
    if found is not None and not found.has_ended:
        raise HttpRefusal(
            409,
            f"{found.kind} {found.id} of {found.flow} has not ended (last driven by {found.who}), and to copy in the"
            f" old direction now would change what it has counted and lent; see: {DR_STATUS.given(flow)}; go on"
            f" with it: {goes_on(found.kind, found.flow)}",
        )


class FoundOperation(msgspec.Struct, frozen=True):
    """What `raymirror dr status --json` prints, as far as it matters here. `reverse`: what the reverse flow does."""

    operation: DrOperation | None
    reverse: ReverseNow
    failovers_unread: dict[str, str] = {}


def stop(call: HttpCall, view: ApiView) -> HttpAnswer:
    """Stop the mirror, which then ends, or a flow, whose mirror stays."""
    return _give(call, view, Command.STOP)


def _give(call: HttpCall, view: ApiView, command: Command) -> HttpAnswer:
    flow = view.named_flow(call).flow if "flow" in call.path else None
    topics = call.body.topics if isinstance(call.body, SomeTopics) else ()
    moved = set[str]()
    if command is Command.RESUME:
        moved.update(*(one.moved_topics for one in view.present.flows if flow in (None, one.flow)))
    body = Accepted(command=command, flow=flow, topics=topics, moved_topics=tuple(sorted(moved)))
    return HttpAnswer(status=202, body=body, deeds=(GiveCommand(command, flow, topics),))


def restart(call: HttpCall, view: ApiView) -> HttpAnswer:
    """Replace the copiers of a flow, one by one, or some of them.

    Raises HttpRefusal: 404 for an unknown copier, 409 while a command runs for the flow.
    """
    flow = view.named_flow(call).flow
    refuse_beside(running_of(view.runs), flow)
    copiers = call.body.copiers if isinstance(call.body, SomeCopiers) else ()
    there = {one.copier_id for one in view.present.copiers if one.flow == flow}
    if unknown := sorted(set(copiers) - there):
        raise HttpRefusal(404, f"Flow {flow} has no copier {', '.join(unknown)}; it has: {', '.join(sorted(there))}")
    return _accepted("restart", flow, RestartCopiers(flow, copiers) if copiers else RestartFlow(flow))


def change_settings(call: HttpCall, view: ApiView) -> HttpAnswer:
    """Change settings of a flow."""
    flow, wanted = view.named_flow(call).flow, call.body
    if not isinstance(wanted, SettingChanges) or not wanted.changes:
        raise HttpRefusal(400, 'Name at least one setting: {"changes": {"topics": "orders"}}')
    return _accepted("settings", flow, ChangeSettings(flow, wanted.changes))


def reload(call: HttpCall, _view: ApiView) -> HttpAnswer:
    """Apply the file on disk, if it is the one whose plan was looked at."""
    return _accepted("reload", None, ApplyFile(call.body.new))


def _accepted(command: str, flow: str | None, deed: Deed) -> HttpAnswer:
    return HttpAnswer(status=202, body=Accepted(command=command, flow=flow), deeds=(deed,))
