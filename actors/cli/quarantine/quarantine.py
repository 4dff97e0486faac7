"""`raymirror quarantine list|show|replay|drop CONFIG`: refused records that were left out of a copy."""

import argparse
import asyncio
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import msgspec

from actors.api.commands.pages import PrintedContents, PrintedRefused, RefusedFacts, RefusedOfFlow
from actors.cli.common import exits
from actors.cli.common.audited import who, write_audit
from actors.cli.common.connect_args import add_url_arguments, remote_mirror, run_remotely
from actors.cli.common.flags import add_config_place, add_flow_argument, add_json_argument
from actors.cli.common.questions import BadQuestion, chosen_flows
from actors.cli.quarantine.quarantine_remote import remote_contents, remote_records
from actors.cli.quarantine.quarantine_tables import facts_of, record_text, records_table, with_contents
from actors.model.run_kinds import RunKind
from actors.observability.colours import stdout_console
from engine.config.config import load_config
from engine.config.settings import FlowConfig, MirrorConfig
from engine.core.refused.entries import RefusedName
from engine.flow.config_sync.audit import DONE, FAILED, AuditRow, Run, new_run
from engine.services.quarantine import RefusedRow, RefusedStanding, ReplayResult, quarantine_of
from engine.wire.record import Record
from policies.dr.advice import ALL_RECORDS, QUARANTINE_LIST, RECORD, RECORDS_OF_TOPIC
from policies.model import TopicPartition
from policies.words import counted

_COMMAND, _BY_COMMAND = "quarantine", "asked for by raymirror quarantine"
_RECORD = re.compile(r"(.+)-([0-9]+)@([0-9]+)")
Wanted = Callable[[RefusedRow], bool]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(metavar="ACTION", required=True)
    found = actions.add_parser("list", help="list the records that are left out and not replayed, dropped or copied")
    found.add_argument("--all", action="store_true", help="also records that are done with")
    found.set_defaults(action=list_records)
    one = actions.add_parser("show", help="show records with key, value and headers")
    one.set_defaults(action=show_records)
    replay = actions.add_parser("replay", help="append held records to their copies, each exactly once")
    replay.add_argument("--unsure", action="store_true", help="also records of which the offset map says nothing")
    replay.set_defaults(action=replay_records)
    drop = actions.add_parser("drop", help="give records up: their contents are removed, their names stay")
    drop.set_defaults(action=drop_records)
    for action in (replay, drop):
        action.add_argument("--all", action="store_true", help="all records of the flow")
    for action in (found, one, replay, drop):
        add_config_place(action)
        add_flow_argument(action, "default: every flow" if action is found else "required if there are several flows")
        action.add_argument(
            "--topic", action="append", metavar="TOPIC", help="a source topic; may be given several times"
        )
        action.add_argument(
            "--record",
            action="append",
            metavar="TOPIC-PARTITION@OFFSET",
            help="a record, as list names it; may be given several times",
        )
        add_json_argument(action)
        add_url_arguments(action)
        action.epilog = (
            "exit codes: 0 done (list: also if there are records), 1 some record was not replayed, 2 bad input, or a"
            " cluster that does not answer; no mirror needs to run"
        )
    parser.epilog = "docs/quarantine.md says what each state of a record means, and where a replayed record goes"


def run(args: argparse.Namespace) -> int:
    """Run the given action.

    Raises ConfigError, BadQuestion, BadEntry, ReplayFailed, BrokerUnreachable, ConnectionLost, KafkaRefusal.
    """
    return int(args.action(args))


def list_records(args: argparse.Namespace) -> int:
    """Print a table of records."""
    wanted, remote = _wanted(args, needed=False), remote_mirror(args)
    found = _listed(args, wanted) if remote is None else remote_records(remote, args)
    if args.json:
        _print_json(PrintedRefused(flows=found))
        return exits.OK
    for one in found:
        print(f"{one.flow}: {summary(one.records)}")
        if one.records:
            stdout_console().print(records_table(one.records))
    return exits.OK


def _listed(args: argparse.Namespace, wanted: Wanted) -> tuple[RefusedOfFlow, ...]:
    config = load_config(args.config)
    found = {str(flow.name): asyncio.run(_rows(config, flow, wanted)) for flow in chosen_flows(config, args.flow)}
    return tuple(
        RefusedOfFlow(flow=name, records=tuple(facts_of(row) for row in rows if args.all or row.is_open))
        for name, rows in found.items()
    )


def show_records(args: argparse.Namespace) -> int:
    """Print records with their contents."""
    wanted, remote = _wanted(args, needed=True), remote_mirror(args)
    if remote is not None:
        records = remote_contents(remote, args)
    else:
        config = load_config(args.config)
        rows = asyncio.run(_contents(config, _chosen_flow(config, args.flow), wanted))
        _refuse_none(args, [row for row, _ in rows])
        records = tuple(with_contents(row, record) for row, record in rows)
    if args.json:
        _print_json(PrintedContents(records=records))
    else:
        print("\n\n".join(map(record_text, records)))
    return exits.OK


def replay_records(args: argparse.Namespace) -> int:
    """Replay records, and print where each one is."""
    if (code := run_remotely(args, RunKind.REPLAY)) is not None:
        return code
    config = load_config(args.config)
    wanted, flow = _wanted(args, needed=True), _chosen_flow(config, args.flow)

    def tell(result: ReplayResult) -> None:
        if not args.json:
            where = f"replayed to target offset {result.target_offset}" if not result.why_not else "not replayed"
            print(f"{result.name}: {where}{f': {result.why_not}' if result.why_not else ''}")

    results, left, is_kept = asyncio.run(_replay(config, flow, wanted, tell, unsure=args.unsure))
    if not (results or args.all):
        _refuse_none(args, left)
    done = [one for one in results if not one.why_not]
    if args.json:
        said = [{"record": str(one.name), **msgspec.to_builtins(one)} for one in results]
        _print_json({"flow": str(flow.name), "replayed": len(done), "results": said, "left": _by_standing(left)})
    else:
        print(f"{flow.name}: {counted(len(done), 'record')} replayed{_left_text(left, 'not tried')}")
    return exits.OK if len(done) == len(results) and is_kept else exits.FAILED


def drop_records(args: argparse.Namespace) -> int:
    """Drop records that are not done with, and print how many."""
    if (code := run_remotely(args, RunKind.DROP)) is not None:
        return code
    config = load_config(args.config)
    wanted, flow = _wanted(args, needed=True), _chosen_flow(config, args.flow)
    rows, left, is_kept = asyncio.run(_drop(config, flow, wanted))
    _refuse_none(args, [*rows, *left])
    if args.json:
        dropped = [str(row.name) for row in rows]
        _print_json({"flow": str(flow.name), "dropped": dropped, "left": _by_standing(left)})
    else:
        print(f"{flow.name}: {counted(len(rows), 'record')} dropped{_left_text(left, 'left')}")
    return exits.OK if is_kept else exits.FAILED


# --- what is asked for -----------------------------------------------------------------------------------------------


def _wanted(args: argparse.Namespace, *, needed: bool) -> Wanted:
    """Return which records the arguments name; all if they name none. Raises BadQuestion."""
    topics, names = frozenset(args.topic or ()), frozenset(_name(text) for text in args.record or ())
    if needed and not (topics or names or getattr(args, "all", False)):
        whole = f" or {ALL_RECORDS.given()}" if hasattr(args, "all") else ""
        raise BadQuestion("no record is named", f"name records with {RECORD}, topics with {RECORDS_OF_TOPIC}{whole}")
    return lambda row: (not topics and not names) or row.name.topic in topics or row.name[:3] in names


def _name(text: str) -> tuple[str, int, int]:
    found = _RECORD.fullmatch(text)
    if found is None:
        raise BadQuestion(f"{text!r} names no record", "write TOPIC-PARTITION@OFFSET, e.g. orders-3@17")
    return found[1], int(found[2]), int(found[3])


def _chosen_flow(config: MirrorConfig, name: str | None) -> FlowConfig:
    found = chosen_flows(config, name)
    if len(found) > 1:
        names = " or ".join(repr(str(flow.name)) for flow in found)
        raise BadQuestion(f"there are {len(found)} flows", f"choose one: --flow {names}")
    return found[0]


def _refuse_none(args: argparse.Namespace, rows: list[RefusedRow]) -> None:
    if not rows:
        named = ", ".join([*(args.record or ()), *(args.topic or ())])
        raise BadQuestion(f"no refused record is known of {named or 'the flow'}", f"see: {QUARANTINE_LIST.given()}")


# --- what the target says --------------------------------------------------------------------------------------------


async def _rows(config: MirrorConfig, flow: FlowConfig, wanted: Wanted) -> list[RefusedRow]:
    async with quarantine_of(config, flow) as found:
        return [row for row in await found.rows() if wanted(row)]


async def _contents(config: MirrorConfig, flow: FlowConfig, wanted: Wanted) -> list[tuple[RefusedRow, Record | None]]:
    async with quarantine_of(config, flow) as found:
        return [(row, await found.contents(row)) for row in await found.rows() if wanted(row)]


async def _replay(
    config: MirrorConfig, flow: FlowConfig, wanted: Wanted, tell: Callable[[ReplayResult], None], *, unsure: bool
) -> tuple[list[ReplayResult], list[RefusedRow], bool]:
    """Replay; return the results, the wanted records that were not tried, and whether the audit trail has all of it."""
    async with quarantine_of(config, flow) as found:
        before = [row for row in await found.rows() if wanted(row)]
        if not any(row.state.record.held for row in before):
            return [], before, True
        results, copies = list[ReplayResult](), {row.name: row.state.record.target for row in before}

        def note(result: ReplayResult) -> None:
            results.append(result)
            tell(result)

        try:
            await found.replay(wanted, note, unsure=unsure)
        finally:  # also what was replayed before the target went away
            run = new_run(flow.name, who(_COMMAND))
            is_kept = await write_audit(config, _COMMAND, replay_rows(run, results, copies))
    tried = {one.name for one in results}
    return results, [row for row in before if row.name not in tried], is_kept


async def _drop(
    config: MirrorConfig, flow: FlowConfig, wanted: Wanted
) -> tuple[list[RefusedRow], list[RefusedRow], bool]:
    """Drop; return the dropped records, the wanted ones that are done with, and whether the audit trail has all of it.

    The mark of a replayed record says where its copy is: without it, a proof takes the copy for another writer's.
    """
    async with quarantine_of(config, flow) as found:
        rows = [row for row in await found.rows() if wanted(row)]
        if not any(row.is_open for row in rows):
            return [], rows, True
        dropped = list[RefusedRow]()
        try:
            left = await found.drop(wanted, dropped.append)
        finally:  # also what was dropped before the target went away
            run = new_run(flow.name, who(_COMMAND))
            is_kept = await write_audit(config, _COMMAND, drop_rows(run, dropped))
    return dropped, left, is_kept


# --- the audit trail -------------------------------------------------------------------------------------------------


def replay_rows(
    run: Run, results: Sequence[ReplayResult], copies: Mapping[RefusedName, TopicPartition]
) -> list[AuditRow]:
    """Return a row for each record that a replay tried; `copies`: the partitions of the copies by record."""
    return [
        msgspec.structs.replace(
            run.row(
                topic=one.name.topic,
                target=copies[one.name].topic if one.name in copies else "",
                change="replay_record",
                name=str(one.name),
                after="" if one.why_not else f"offset {one.target_offset}",
                why=_BY_COMMAND,
            ),
            outcome=FAILED if one.why_not else DONE,
            detail=one.why_not,
        )
        for one in results
    ]


def drop_rows(run: Run, rows: Sequence[RefusedRow]) -> list[AuditRow]:
    """Return a row for each record that was dropped."""
    return [
        run.row(
            topic=row.name.topic,
            target=row.state.record.target_topic,
            change="drop_record",
            name=str(row.name),
            before=row.standing.value,
            why=_BY_COMMAND,
        )
        for row in rows
    ]


# --- words -----------------------------------------------------------------------------------------------------------


def summary(rows: Sequence[RefusedFacts]) -> str:
    """Count records by what became of them."""
    if not rows:
        return "no refused records"
    said = [f"{number} {standing}" for standing, number in _by_state(row.state for row in rows).items()]
    return f"{counted(len(rows), 'refused record')}: {', '.join(said)}"


def _by_standing(rows: list[RefusedRow]) -> dict[str, int]:
    return _by_state(row.standing.value for row in rows)


def _by_state(states: Iterable[str]) -> dict[str, int]:
    numbers = Counter(states)
    return {one.value: numbers[one.value] for one in RefusedStanding if numbers[one.value]}


def _left_text(left: list[RefusedRow], what: str) -> str:
    said = ", ".join(f"{number} {standing}" for standing, number in _by_standing(left).items())
    return f"; {what}: {said}" if said else ""


def _print_json(said: Any) -> None:
    print(msgspec.json.encode(said).decode())
