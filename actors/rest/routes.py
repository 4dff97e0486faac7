"""Defines a route, and finds the one that a request asks for, by Jersey's rules: 404, 405, 406, 415, OPTIONS, HEAD."""

import enum
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import msgspec

from actors.model.requests import ASKED_FROM
from actors.rest.access import SAFE_METHODS, ProvenLogin, refuse_foreign_page, refuse_weak, user_of
from actors.rest.exchange import JSON, HttpAnswer, HttpCall, HttpRefusal, HttpRequest
from actors.rest.target import QueryParameter, read_target
from actors.rest.view import MirrorView, Need
from engine.config.http.http_secrets import HttpLogin
from policies.dr.advice import AskedFrom
from policies.roles import Role

OPTIONS: Final = "OPTIONS"
CONNECT: Final = "Kafka Connect"
"""The tag of routes that answer in Connect's words."""
FIRST_S: Final = 10.0
"""Seconds after the start of a supervisor in which what it has not read yet is answered with 409."""

HttpHandler = Callable[[HttpCall, Any], HttpAnswer]
"""Takes a call and a view: a MirrorView, or what the route's need makes of it (`actors/api/view.py`)."""


class HttpRoute(msgspec.Struct, frozen=True, kw_only=True):
    """One method of one path. Parts of `template` in braces are variables; `role`: None lets everybody in."""

    method: str
    template: str
    summary: str
    handler: HttpHandler
    role: Role | None = Role.VIEW
    need: enum.Enum = Need.NOTHING
    """What its handler needs to know: a Need, or an ApiNeed."""
    takes: Any = None
    """The type of the body; None if the route reads none."""
    gives: Mapping[int, Any]
    """The type of the body by status; None if there is no body. Refusals have Connect's error body."""
    content_type: str = JSON
    query: tuple[QueryParameter, ...] = ()
    """What the query may have; other names are ignored."""
    tag: str = CONNECT
    missing: bool = False
    """Whether the route only refuses, because what it asks for is not there yet."""
    needs_body: bool = True
    """Whether a route that takes a body refuses a request without one."""
    is_large: bool = False
    """Whether its answer may be so large that it is made in a thread."""
    needs_state: bool = True
    """Whether it says or changes something that the stored state of a flow decides."""
    within_s: float | None = None
    """Seconds that an answer may take, if not as many as usual."""

    @property
    def parts(self) -> tuple[str, ...]:
        return tuple(part for part in self.template.split("/") if part)

    def match(self, path: Sequence[str]) -> dict[str, str] | None:
        """Return the variables of a path; None if it is another path."""
        parts = self.parts
        if len(parts) != len(path):
            return None
        found: dict[str, str] = {}
        for part, given in zip(parts, path, strict=True):
            if part.startswith("{") and given:
                found[part[1:-1]] = given
            elif part != given:
                return None
        return found


class AdmittedRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A request that may be answered: its route, its call without the body, and who asks."""

    route: HttpRoute
    call: HttpCall
    login: HttpLogin


def admit(
    table: Sequence[HttpRoute],
    request: HttpRequest,
    logins: Sequence[HttpLogin],
    proven: ProvenLogin | None = None,
) -> AdmittedRequest | HttpAnswer:
    """Find the route of a request, and check who asks and how; OPTIONS is answered at once. Raises HttpRefusal.

    `proven`: who has a session; the request may name somebody else by a password or token of its own.

    Somebody without a name learns nothing about paths: 401 comes before 404.
    """
    target = read_target(request.target)
    routes = [(route, found) for route in table if (found := route.match(target.path)) is not None]
    is_open = bool(routes) and all(route.role is None for route, _ in routes)
    if request.method not in SAFE_METHODS or not is_open:
        refuse_foreign_page(request.method, request.headers, has_users=bool(logins))
    login = _OPEN if is_open else _identified(request, logins, proven)
    if not routes:
        raise HttpRefusal(404, "HTTP 404 Not Found")
    allowed = sorted({route.method for route, _ in routes} | {OPTIONS, *(_HEAD if _has(routes, "GET") else ())})
    if request.method == OPTIONS:
        return HttpAnswer(body=",".join(allowed), content_type="text/plain", headers=(("Allow", ",".join(allowed)),))
    method = "GET" if request.method == "HEAD" else request.method
    if not _has(routes, method):
        raise HttpRefusal(405, "HTTP 405 Method Not Allowed", (("Allow", ",".join(allowed)),))
    route, variables = next(one for one in routes if one[0].method == method)
    if route.role is not None:
        refuse_weak(login, route.role)
    if not _accepts(request.headers.get("accept", "*/*"), route.content_type):
        raise HttpRefusal(406, "HTTP 406 Not Acceptable")
    call = HttpCall(
        path=variables,
        query=target.query,
        user=login.name,
        role=login.role,
        last_event_id=request.headers.get("last-event-id", ""),
        asked_from=_asked_from(request.headers),
    )
    for parameter in route.query:
        parameter.refuse_wrong(call)
    return AdmittedRequest(route=route, call=call, login=login)


def with_body(admitted: AdmittedRequest, headers: Mapping[str, str], body: bytes) -> HttpCall:
    """Return the call with its body, read as the route's type. Raises HttpRefusal."""
    route, call = admitted.route, admitted.call
    if not body.strip() and not (route.takes and route.needs_body):
        return call
    if headers.get("content-type", JSON).partition(";")[0].strip().lower() != JSON:
        right = "" if route.tag == CONNECT else f": send the body with the header Content-Type: {JSON}"
        raise HttpRefusal(415, f"HTTP 415 Unsupported Media Type{right}")
    if not route.takes:
        return call
    try:
        return msgspec.structs.replace(call, body=msgspec.json.decode(body, type=route.takes))
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as bad:
        why = f"{bad}{_permitted(route.takes, str(bad))}"
        raise HttpRefusal(400, f"The body is not what is expected: {why}") from None


def _permitted(kind: Any, why: str) -> str:
    """Name the values of a field that takes some words only, which msgspec does not do; empty for other errors."""
    named = _NO_CHOICE.search(why)
    info = msgspec.inspect.type_info(kind)
    if named is None or not isinstance(info, msgspec.inspect.StructType):
        return ""
    types = {one.encode_name: one.type for one in info.fields}
    taken = types.get(named[1])
    values = taken.values if isinstance(taken, msgspec.inspect.LiteralType) else ()
    return f"; it may be: {', '.join(map(repr, values))}" if values else ""


def refuse_unread(admitted: AdmittedRequest, view: MirrorView) -> None:
    """Refuse what a mirror that has just begun would answer wrongly, or do wrongly. Raises HttpRefusal (409).

    The wanted state of a flow is stored on its target. Until it is read, a paused or deleted flow looks like one that
    runs, and a command might start a flow that was failed over. If the target stays away, reading is answered with what
    is known: other flows are there to be seen.
    """
    route, call = admitted.route, admitted.call
    if view.status is None or route.need in _STATELESS or not route.needs_state:
        return
    connector = view.connectors.get(call.path.get("connector", ""))
    named = connector.flow if connector is not None else call.path.get("flow")
    flows = [flow for flow in view.status.flows if named in (None, flow.flow)]
    unread = [flow for flow in flows if not flow.remembered or (route.need is Need.LANES and flow.is_undiscovered)]
    changes = route.role is not None and route.role.covers(Role.OPERATE) and route.method != "GET"
    unsafe = [flow for flow in unread if not flow.remembered] if changes else []
    if unsafe or (unread and view.status.up_s < FIRST_S):
        waits = next((f": it waits for {flow.waiting_for}" for flow in unread if flow.waiting_for), "")
        names = ", ".join(flow.flow for flow in unread)
        raise HttpRefusal(
            409, f"The mirror has begun and has not read the stored state of {names} yet{waits}; try again"
        )


_STATELESS: Final = (Need.NOTHING, Need.HEALTH, Need.METRICS, Need.READINESS)
"""The needs of routes that say nothing of a flow's wanted state."""
_NO_CHOICE: Final = re.compile(r"^Invalid enum value .* - at `\$\.(\w+)`$", re.DOTALL)
_OPEN: Final = HttpLogin(name="anybody", role=Role.VIEW)
_HEAD: Final = ("HEAD",)


def _identified(request: HttpRequest, logins: Sequence[HttpLogin], proven: ProvenLogin | None) -> HttpLogin:
    if proven is None or not logins or "authorization" in request.headers:
        return user_of(logins, request.headers)
    proven.refuse_forged(request.method, request.headers)
    return proven.login


def _asked_from(headers: Mapping[str, str]) -> AskedFrom:
    return AskedFrom.COMMAND_LINE if headers.get(ASKED_FROM) == AskedFrom.COMMAND_LINE else AskedFrom.HTTP


def _has(routes: Sequence[tuple[HttpRoute, dict[str, str]]], method: str) -> bool:
    return any(route.method == method for route, _ in routes)


def _accepts(accept: str, content_type: str) -> bool:
    """Whether an Accept header takes a type; quality 0 excludes one."""
    wanted = content_type.partition(";")[0]
    kind = wanted.partition("/")[0]
    for one in accept.split(","):
        name, *parameters = (part.strip().lower() for part in one.split(";"))
        if name in ("", "*/*", "*", f"{kind}/*", wanted) and not any(_is_zero(one) for one in parameters):
            return True
    return False


def _is_zero(parameter: str) -> bool:
    name, _, value = parameter.partition("=")
    return name.strip() == "q" and value.strip().rstrip("0") in ("", "0.", ".")
