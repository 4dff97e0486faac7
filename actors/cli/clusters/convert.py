"""`raymirror convert FILE...`: writes a commented `mirror.yaml` from the configuration of another tool."""

import argparse
import os
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from actors.cli.common import exits
from actors.cli.common.flags import add_json_argument, say_facts
from actors.cli.common.questions import BadQuestion
from engine.base.errors import ConfigError
from engine.config.file.file_kind import is_yaml
from engine.convert.conversion import Conversion, convert
from engine.convert.inputs import CONSUMER, PRODUCER
from engine.convert.mm1 import UNNEEDED
from engine.convert.model import Carried, Dropped, InputFile, Options
from engine.convert.writing import lost_text
from policies.words import counted

STDIN: Final = "standard input"
_NEW_CONSUMER: Final = "new.consumer"
MODE: Final = 0o600
"""The mode of the new file: it may contain passwords that were in the input."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "files",
        nargs="*",
        type=Path,
        metavar="FILE",
        help="consumer and producer files of MirrorMaker 1 or uReplicator; connectors as JSON, with the file of the"
        " Connect workers; a KafkaMirrorMaker2; Replicator's files; mm2.properties; - is standard input",
    )
    parser.add_argument("-o", "--output", type=Path, metavar="FILE", help="write to this .yaml file (mode 0600)")
    parser.add_argument("--force", action="store_true", help="overwrite FILE")
    add_json_argument(parser, "print one JSON object: what was carried, changed, not carried")
    _add_mm1_arguments(parser)
    _add_missing_arguments(parser)
    parser.epilog = (
        "exit codes: 0 all was carried; 6 something was not, and the new file names it with its reason; 2 the input"
        " cannot be converted, nothing was written"
    )


def _add_mm1_arguments(parser: argparse.ArgumentParser) -> None:
    about = "as its command line has them; those that mean nothing here, such as --new.consumer, are taken too"
    mm1 = parser.add_argument_group("options of MirrorMaker 1", about)
    mm1.add_argument("--consumer.config", dest="consumer", type=Path, metavar="FILE", help="the consumer's file")
    mm1.add_argument("--producer.config", dest="producer", type=Path, metavar="FILE", help="the producer's file")
    mm1.add_argument("--whitelist", "--include", metavar="PATTERN", help="the topics that are mirrored")
    mm1.add_argument("--blacklist", metavar="PATTERN", help="the topics that are not")
    mm1.add_argument("--num.streams", dest="num_streams", metavar="N", help="becomes tasks.max")
    mm1.add_argument("--message.handler", dest="message_handler", metavar="CLASS", help="cannot be carried")
    mm1.add_argument(f"--{_NEW_CONSUMER}", action="store_true", help=argparse.SUPPRESS)
    for name in UNNEEDED.keys() - {_NEW_CONSUMER}:
        mm1.add_argument(f"--{name}", metavar="VALUE", help=argparse.SUPPRESS)


def _add_missing_arguments(parser: argparse.ArgumentParser) -> None:
    more = parser.add_argument_group("what the files do not say")
    more.add_argument("--source-alias", metavar="ALIAS", help="default: source")
    more.add_argument("--target-alias", metavar="ALIAS", help="default: target")
    more.add_argument("--source-bootstrap", metavar="SERVERS", help="brokers of the source, host:port,...")
    more.add_argument("--target-bootstrap", metavar="SERVERS", help="brokers of the target, host:port,...")
    more.add_argument(
        "--secrets",
        default=Options().secrets,
        metavar="FOLDER",
        help="where the mirror's machines have the secrets that Kubernetes or a vault has now (default: %(default)s)",
    )


def run(args: argparse.Namespace) -> int:
    """Convert, and print or write the result. Raises ConfigError, BadQuestion: exit code 2."""
    _check_output(args)
    found = convert(list(_inputs(args)), _options(args))
    if args.output is not None:
        _write(args.output, found.text, force=args.force)
    if args.json:
        _say_report(args, found)
    elif args.output is None:
        print(found.printed, end="")
        print(_summary(found), file=sys.stderr)
    else:
        _say_written(args.output, found)
    return exits.NOT_WHOLE if found.lost else exits.OK


def _check_output(args: argparse.Namespace) -> None:
    if args.output is None:
        return
    if not is_yaml(str(args.output)):
        raise BadQuestion(f"{args.output} would be read as mm2.properties", "give the new file a name with .yaml")
    if args.output.exists() and not args.force:
        raise BadQuestion(f"{args.output} is there already", "give another name, or --force to overwrite it")


def _inputs(args: argparse.Namespace) -> Iterator[InputFile]:
    """Yield the files of the command line. Raises ConfigError for one that cannot be read, BadQuestion for none."""
    named = [(path, "") for path in args.files]
    named += [(path, role) for path, role in ((args.consumer, CONSUMER), (args.producer, PRODUCER)) if path]
    if not named:
        raise BadQuestion("no file is named", "give the files of the other tool: raymirror convert FILE...")
    for path, role in named:
        if str(path) == "-":
            yield InputFile(STDIN, sys.stdin.buffer.read(), role)
            continue
        try:
            data = path.read_bytes()
        except OSError as error:
            raise ConfigError(
                str(path), 0, "file", f"cannot be read: {error.strerror}", "give a readable file"
            ) from None
        yield InputFile(str(path), data, role)


def _options(args: argparse.Namespace) -> Options:
    return Options(
        whitelist=args.whitelist,
        blacklist=args.blacklist,
        num_streams=args.num_streams,
        message_handler=args.message_handler,
        unneeded=tuple(name for name in UNNEEDED if vars(args)[name]),
        source_alias=args.source_alias,
        target_alias=args.target_alias,
        source_bootstrap=args.source_bootstrap,
        target_bootstrap=args.target_bootstrap,
        secrets=args.secrets.rstrip("/"),
    )


def _write(path: Path, text: str, *, force: bool) -> None:
    """Write a file that only its owner may read, whole or not at all. Raises BadQuestion."""
    there = path.with_name(f".{path.name}.{os.getpid()}") if force else path
    try:
        with open(os.open(there, os.O_WRONLY | os.O_CREAT | os.O_EXCL, MODE), "w", encoding="utf-8") as file:
            file.write(text)
        if force:
            there.replace(path)
    except OSError as error:
        raise BadQuestion(
            f"{path} cannot be written: {error.strerror}", "give a file in a folder that exists"
        ) from None


def _say_written(path: Path, found: Conversion) -> None:
    for one in found.lost:
        print(f"not carried: {lost_text(one)}")
    if found.secrets:
        print(f"{path} contains passwords of the input; only its owner may read it")
    print(f"{path}: {_summary(found)}")


def _summary(found: Conversion) -> str:
    changed = sum(bool(one.why) for one in found.settings)
    lost = f"NOT CARRIED: {len(found.lost)}, each named with its reason" if found.lost else "nothing is lost"
    return f"{found.kind}: {counted(len(found.settings), 'setting')}, {changed} of them changed; {lost}"


def _say_report(args: argparse.Namespace, found: Conversion) -> None:
    say_facts(
        args,
        kind=found.kind,
        output=str(args.output) if args.output else None,
        whole=not found.lost,
        carried=list(_carried(one for one in found.settings if not one.why)),
        changed=[{**row, "why": one.why} for one, row in _changed(found.settings)],
        not_carried=[{"from": str(one.origin), "why": one.why, "instead": one.instead} for one in found.lost],
        not_needed=list(_needless(found.dropped)),
        secrets=[one.key for one in found.secrets],
        text=found.printed if args.output is None else None,
    )


def _carried(settings: Iterable[Carried]) -> Iterator[dict[str, str]]:
    for one in settings:
        yield {"from": str(one.origin), "key": one.key}


def _changed(settings: Iterable[Carried]) -> Iterator[tuple[Carried, dict[str, str]]]:
    changed = [one for one in settings if one.why]
    yield from zip(changed, _carried(changed), strict=True)


def _needless(dropped: Iterable[Dropped]) -> Iterator[dict[str, str]]:
    for one in dropped:
        if one.needless:
            yield {"from": str(one.origin), "why": one.why}
