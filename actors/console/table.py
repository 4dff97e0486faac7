"""The routes of the console: its files, and the session of who uses it."""

from typing import Final

from actors.console.entering import ConsoleNeed, ConsoleVisit, Entry, SessionInfo
from actors.console.files import start_page, static_file
from actors.rest.exchange import HttpAnswer, HttpCall
from actors.rest.routes import HttpHandler, HttpRoute

SESSION: Final = "/console/session"
_ANY: Final = "*/*"


def _file(template: str, summary: str, handler: HttpHandler = static_file) -> HttpRoute:
    return HttpRoute(
        method="GET",
        template=template,
        summary=summary,
        handler=handler,
        role=None,
        gives={200: str},
        content_type=_ANY,
        tag="console",
    )


def _session(method: str, summary: str, handler: HttpHandler, **more: object) -> HttpRoute:
    usual = {"role": None, "need": ConsoleNeed.SESSION, "tag": "console"}
    return HttpRoute(method=method, template=SESSION, summary=summary, handler=handler, **usual | more)  # type: ignore[arg-type]


def _present(_call: HttpCall, visit: ConsoleVisit) -> HttpAnswer:
    return visit.present()


def _enter(call: HttpCall, visit: ConsoleVisit) -> HttpAnswer:
    return visit.enter(call.body)


def _leave(_call: HttpCall, visit: ConsoleVisit) -> HttpAnswer:
    return visit.leave()


CONSOLE_ROUTES: Final[tuple[HttpRoute, ...]] = (
    _file("/console", "The console", start_page),
    _session("GET", "Who asks", _present, gives={200: SessionInfo}),
    _session("POST", "Log in", _enter, takes=Entry, gives={200: SessionInfo}),
    _session("DELETE", "Log out", _leave, gives={204: None}),
    _file("/console/{file}", "A file that the console loads"),
    _file("/console/{folder}/{file}", "A file that the console loads"),
)
