"""Which command of the command line a look runs, with which exit codes it has found something, and its output.

What a request gives enters a command as `--name=value`, or behind `--`: so no value is ever read as an option.
"""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from actors.api.queries import LIMIT, part_of, since_of, text, word, words
from actors.api.view import ApiNeed, ApiView
from actors.rest.exchange import HttpCall, HttpRefusal
from actors.rest.failures import status_of_exit
from actors.rest.target import CountParameter, FlagParameter
from engine.flow.config_sync.audit import AuditRow

USUAL_TOPICS: Final = 20
MOST_TOPICS: Final = 100
MOST_QUERY: Final = 4_000
"""Characters of a query in SQL."""
HISTORY_TOPICS: Final = CountParameter(
    name="topics", meaning="how many topics, those furthest behind", usual=USUAL_TOPICS, most=MOST_TOPICS
)
ALL: Final = FlagParameter(name="all", meaning="`true`: also records that are done with")
FAILED_OVER: Final = FlagParameter(name="failed_over", meaning="`true`: resume a flow that was failed over, too")
_WEEK: Final = "7d"
_DAY: Final = "24h"
_HOUR: Final = "1h"


class CommandOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """How a command ended: its exit code, what it printed, what it said on standard error, how long it took."""

    code: int
    printed: bytes
    said: str
    took_seconds: float


class CommandLook(msgspec.Struct, frozen=True, kw_only=True):
    """A look: `words` makes the command's words of a request, none if there is nothing to find.

    `fine`: the exit codes with which the command has printed what it has found (`actors/cli/common/exits.py`).
    `of_storage`: it reads what the mirror keeps in its storage, so nothing runs without one.
    """

    words: Callable[[HttpCall, ApiView], tuple[str, ...]]
    fine: tuple[int, ...] = (0,)
    of_storage: bool = False


def words_of(need: ApiNeed, call: HttpCall, view: ApiView) -> tuple[str, ...]:
    """Return the command that finds out what a route needs; none if there is nothing to find. Raises HttpRefusal."""
    look = LOOKS.get(need)
    if look is not None and (view.facts.storage or not look.of_storage):
        return look.words(call, view)
    if "flow" in call.path:
        view.operated_flow(call) if need is ApiNeed.RUNS else view.named_flow(call)
    return ()


# --- words ------------------------------------------------------------------------------------------------------------


def _preview(call: HttpCall, view: ApiView) -> tuple[str, ...]:
    return ("dr", "preview", view.named_flow(call).flow, "--config", view.config_path, "--json")


def _sync_plan(call: HttpCall, view: ApiView) -> tuple[str, ...]:
    return ("plan", view.config_path, view.named_flow(call).flow, "--json")


def _history(call: HttpCall, view: ApiView) -> tuple[str, ...]:
    flow, since = view.named_flow(call).flow, _since(call, view, _HOUR)
    topics = HISTORY_TOPICS.read(call)
    more = ("--since", since, "--most-topics", str(topics), "--config", view.config_path, "--json")
    return ("lag", flow, "--history", *more)


def _operations(call: HttpCall, view: ApiView) -> tuple[str, ...]:
    return ("dr", "history", view.operated_flow(call), "--config", view.config_path, "--json")


def _open_operation(call: HttpCall, view: ApiView) -> tuple[str, ...]:
    flow = view.named_flow(call)
    if not (flow.failed_over and FAILED_OVER.read(call)):
        return ()
    return ("dr", "status", flow.flow, "--config", view.config_path, "--json")


def _audit(call: HttpCall, view: ApiView) -> tuple[str, ...]:
    part_of(call)  # what cannot be read is refused before anything runs
    return ("audit", view.config_path, "--since", _since(call, view, _WEEK), "--json")


def _refused(call: HttpCall, view: ApiView) -> tuple[str, ...]:
    part_of(call)
    every = ("--all",) if ALL.read(call) else ()
    return ("quarantine", "list", *every, *_records(call), *_flow_behind(call, view))


def _contents(call: HttpCall, view: ApiView) -> tuple[str, ...]:
    named = tuple(_records(call))
    if not named:
        raise HttpRefusal(400, "Name records: ?record=TOPIC-PARTITION@OFFSET, or topics: ?topic=TOPIC")
    return ("quarantine", "show", *named, *_flow_behind(call, view))


def _translation(call: HttpCall, view: ApiView) -> tuple[str, ...]:
    group = word(call, "group")
    if group in ("", "--"):  # a command takes `--` for the end of its options, also behind another one
        raise HttpRefusal(400, "Name a consumer group: ?group=GROUP")
    return ("translate", f"--flow={view.named_flow(call).flow}", "--json", "--", group, view.config_path)


def _moves(call: HttpCall, view: ApiView) -> tuple[str, ...]:
    return ("move", "--list", f"--flow={view.named_flow(call).flow}", "--config", view.config_path, "--json")


def _ends(call: HttpCall, view: ApiView) -> tuple[str, ...]:
    part_of(call)
    return ("compare-ends", *(f"--topic={one}" for one in words(call, "topic")), *_flow_behind(call, view))


def _tables(_call: HttpCall, view: ApiView) -> tuple[str, ...]:
    return ("tables", "--config", view.config_path, "--json")


def _sql(call: HttpCall, view: ApiView) -> tuple[str, ...]:
    query, rows = text(call, "q"), LIMIT.read(call)
    if query.strip() in ("", "--") or "\0" in query or len(query) > MOST_QUERY:
        raise HttpRefusal(400, f"Give one SELECT of at most {MOST_QUERY:,} characters: ?q=SELECT ...")
    return ("sql", "--page", f"--rows={rows}", "--config", view.config_path, "--", query)


def _drift(call: HttpCall, view: ApiView) -> tuple[str, ...]:
    part_of(call)
    asked = (*_of_flow(call, view), f"--since={_since(call, view, _WEEK)}", *_given(call, "topic"))
    return ("drift", *asked, "--page", "--config", view.config_path)


def _report(call: HttpCall, view: ApiView) -> tuple[str, ...]:
    since = _since(call, view, _DAY)
    return ("report", *_of_flow(call, view), f"--since={since}", "--output=-", "--config", view.config_path)


LOOKS: Final[dict[ApiNeed, CommandLook]] = {
    ApiNeed.PREVIEW: CommandLook(words=_preview, fine=(0, 4)),
    ApiNeed.SYNC_PLAN: CommandLook(words=_sync_plan, fine=(0, 1, 5)),
    ApiNeed.HISTORY: CommandLook(words=_history, of_storage=True),
    ApiNeed.AUDIT: CommandLook(words=_audit, of_storage=True),
    ApiNeed.OPERATIONS: CommandLook(words=_operations),
    ApiNeed.OPEN_OPERATION: CommandLook(words=_open_operation, fine=(0, 1)),
    ApiNeed.REFUSED: CommandLook(words=_refused),
    ApiNeed.CONTENTS: CommandLook(words=_contents),
    ApiNeed.TRANSLATION: CommandLook(words=_translation, fine=(0, 1, 4)),
    ApiNeed.MOVES: CommandLook(words=_moves, fine=(0, 4)),
    ApiNeed.ENDS: CommandLook(words=_ends, fine=(0, 1)),
    ApiNeed.TABLES: CommandLook(words=_tables, of_storage=True),
    ApiNeed.SQL: CommandLook(words=_sql, of_storage=True),
    ApiNeed.DRIFT: CommandLook(words=_drift, fine=(0, 1), of_storage=True),
    ApiNeed.REPORT: CommandLook(words=_report, fine=(0, 1), of_storage=True),
}


def _records(call: HttpCall) -> Iterator[str]:
    yield from (f"--topic={one}" for one in words(call, "topic"))
    yield from (f"--record={one}" for one in words(call, "record"))


def _flow_behind(call: HttpCall, view: ApiView) -> tuple[str, ...]:
    return (f"--flow={view.named_flow(call).flow}", "--json", "--", view.config_path)


def _of_flow(call: HttpCall, view: ApiView) -> Iterator[str]:
    """Yield the flow that a query names, if it names one. Raises HttpRefusal (404)."""
    if name := word(call, "flow"):
        named = msgspec.structs.replace(call, path={"flow": name})
        yield f"--flow={view.named_flow(named).flow}"


def _given(call: HttpCall, name: str) -> Iterator[str]:
    if value := word(call, name):
        yield f"--{name}={value}"


def _since(call: HttpCall, view: ApiView, usual: str) -> str:
    return _instant(since_of(call, view.present.at_ms, usual))


def _instant(at_ms: int) -> str:
    """Return a Unix time (ms) as commands read it, to 10 s, so that requests of one moment share a run.

    Raises HttpRefusal (400) if there is no such date.
    """
    try:
        return datetime.fromtimestamp(at_ms // 10_000 * 10, UTC).isoformat()
    except (ValueError, OverflowError, OSError):
        raise HttpRefusal(400, f"since={at_ms} is no date") from None


# --- output -----------------------------------------------------------------------------------------------------------


def printed(need: ApiNeed, view: ApiView) -> CommandOutcome | None:
    """Return what a command has printed, perhaps nothing; None if none ran. Raises HttpRefusal (400, 409)."""
    found = view.found
    if not isinstance(found, CommandOutcome):
        return None
    if found.code not in LOOKS[need].fine or (found.code and not found.printed.strip()):
        why = found.said or f"The command ended with exit code {found.code} and said nothing"
        raise HttpRefusal(status_of_exit(found.code), why)
    return found


def decoded(found: CommandOutcome | None, kind: Any) -> Any:
    """Read what a command has printed. Raises HttpRefusal (409)."""
    try:
        return msgspec.json.decode(found.printed if found is not None else b"", type=kind)
    except msgspec.MsgspecError:
        raise _cut_off() from None


def decoded_lines(data: bytes, kind: type[AuditRow]) -> list[AuditRow]:
    """Read what a command has printed, an object a line. Raises HttpRefusal (409)."""
    try:
        return msgspec.json.Decoder(kind).decode_lines(data)
    except msgspec.MsgspecError:
        raise _cut_off() from None


def took(found: CommandOutcome | None) -> float:
    """Return how many seconds a command took; 0 if none ran."""
    return found.took_seconds if found is not None else 0.0


def _cut_off() -> HttpRefusal:
    return HttpRefusal(409, "The command has not printed everything; ask again, or for less")
