"""Answers metrics and probes, and describes the server."""

from actors.rest.exchange import HttpAnswer, HttpCall
from actors.rest.view import MirrorView
from actors.telemetry.prometheus import CONTENT_TYPE

TEXT = "text/plain; charset=utf-8"


def metrics(_call: HttpCall, view: MirrorView) -> HttpAnswer:
    """Return all metrics, as Prometheus reads them."""
    return HttpAnswer(body=view.metrics, content_type=CONTENT_TYPE)


def healthz(_call: HttpCall, view: MirrorView) -> HttpAnswer:
    """Say whether the mirror is alive."""
    return _verdict(view.why_dead)


def readyz(_call: HttpCall, view: MirrorView) -> HttpAnswer:
    """Say whether the mirror does its work."""
    return _verdict(view.why_dead or view.why_not_ready)


def _verdict(why_not: str) -> HttpAnswer:
    return HttpAnswer(status=503 if why_not else 200, body=(why_not or "ok") + "\n", content_type=TEXT)
