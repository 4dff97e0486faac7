"""A mirror of one flow as the handlers of routes see it, and requests to it without a socket."""

from collections.abc import Mapping, Sequence
from contextvars import copy_context
from typing import Any

import msgspec

from actors.api.series import SeriesRing
from actors.api.view import ApiView, RunFiles
from actors.http.table import ROUTES
from actors.model.messages import StoredOffset
from actors.model.status import CopierStatus, MirrorStatus
from actors.rest.connectors import connectors_of
from actors.rest.entities import LoggerLevel
from actors.rest.exchange import HttpAnswer, HttpRefusal, HttpRequest, StartCommand
from actors.rest.routes import admit, refuse_unread, with_body
from actors.rest.view import MirrorView
from engine.config.config import plain_settings, read_config
from engine.config.file.properties import parse_properties
from engine.config.http.http_secrets import HttpLogin
from engine.core.reports.progress import LaneProgress
from policies.dr.advice import asked_from
from tests.unit.actors.telemetry.statuses import copier, flow_status, lane, mirror_status
from tests.unit.engine.config_files import BASE

SOURCE, CHECKPOINT, HEARTBEAT = (f"A->B.Mirror{kind}Connector" for kind in ("Source", "Checkpoint", "Heartbeat"))
NAMES = (SOURCE, CHECKPOINT, HEARTBEAT)
HERE = {"host": "localhost:8083"}
DRILL = StartCommand(
    run="r1", kind="drill", flow="A->B", words=("dr", "drill", "A->B"), user="eve", dry_run=False, began_ms=1000
)


def configured(extra: str = "") -> dict[str, Any]:
    """Return the connectors of a configuration."""
    properties = parse_properties(BASE + extra, "mm2.properties")
    return dict(connectors_of(read_config(properties), plain_settings(properties)))


def status_with(
    *lanes: LaneProgress, copiers: Sequence[CopierStatus] | None = None, phase: str = "running", **flow: Any
) -> MirrorStatus:
    """Return a status of the flow A->B with one copier."""
    known = [copier()] if copiers is None else copiers
    return mirror_status(*lanes, flows=[flow_status(**flow)], copiers=known, phase=phase)


def view_of(status: MirrorStatus | None = None, *, extra: str = "", **changes: object) -> ApiView:
    """Return a view of a running mirror with two partitions, one of them copied up to 100, and a drill that is done."""
    plain = ApiView(
        ring=SeriesRing(),
        connectors=configured(extra),
        version="0.1.0",
        config_path="/etc/mm2.properties",
        host="head:8083",
        node="f" * 56,
        status=status or status_with(lane("t", 0), lane("t", 1)),
        positions=(
            StoredOffset(topic="t", partition=0, source_next=100),
            StoredOffset(topic="t", partition=1, source_next=0),
        ),
        loggers={"raymirror": LoggerLevel("INFO"), "root": LoggerLevel("WARN", 5)},
        metrics="# HELP x\n",
        runs=(RunFiles(call=DRILL, alive=False, code=0, ended_ms=2000),),
    )
    return msgspec.structs.replace(plain, **changes)


def ask(
    method: str,
    target: str,
    body: object = None,
    *,
    view: MirrorView | None = None,
    logins: Sequence[HttpLogin] = (),
    headers: Mapping[str, str] = {},
) -> HttpAnswer:
    """Send a request, and return the answer or the refusal."""
    return copy_context().run(_asked, method, target, body, view, logins, headers)


def _asked(
    method: str,
    target: str,
    body: object,
    view: MirrorView | None,
    logins: Sequence[HttpLogin],
    headers: Mapping[str, str],
) -> HttpAnswer:
    sent = {**HERE, "content-type": "application/json", **headers}
    data = b"" if body is None else body if isinstance(body, bytes) else msgspec.json.encode(body)
    try:
        admitted = admit(ROUTES, HttpRequest(method=method, target=target, headers=sent, body=data), logins)
        if isinstance(admitted, HttpAnswer):
            return admitted
        seen = view or view_of()
        asked_from(admitted.call.asked_from)
        refuse_unread(admitted, seen)
        return admitted.route.handler(with_body(admitted, sent, data), seen)
    except HttpRefusal as refusal:
        return refusal.answer()


def shown(answer: HttpAnswer) -> Any:
    """Return the body as a client reads it; None if there is none."""
    data = answer.encoded()
    return msgspec.json.decode(data) if data else None


def error(answer: HttpAnswer) -> tuple[int, str]:
    """Return status and message of a refusal, whose body must say the same status."""
    body = shown(answer)
    assert body["error_code"] == answer.status
    assert body.keys() == {"error_code", "message"}
    return answer.status, body["message"]
