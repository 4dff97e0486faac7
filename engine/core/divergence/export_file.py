"""The file of the exported records of one partition: JSON lines, lossless, for people and for other tools.

    {"format":1,"flow":"A->B","cluster_id":"w3Fd...","topic":"t","partition":0,"first":5,"end":12}
    {"offset":5,"timestamp":1700000000000,"key":"azE=","value":null,"headers":[["aA==","dg=="]]}
    {"records":1,"digest":"9f86..."}

Keys, values and headers are base64 (RFC 4648); null stays null. The digest is BLAKE2b (32 bytes) of all lines of
records with their line ends, so a file that was cut or changed is noticed.
"""

from collections.abc import Iterable
from hashlib import blake2b
from typing import BinaryIO

import msgspec

from engine.base.errors import MirrorError
from engine.core.formats import check_format
from engine.wire.record import Record

FORMAT_VERSION = 1
_DIGEST_BYTES = 32


class BadExport(MirrorError):
    """A file is not a whole export: its name, and why."""

    exit_code = 1  # the export ran, and failed

    def __init__(self, where: str, why: str) -> None:
        super().__init__(where, why)
        self.where, self.why = where, why

    def __str__(self) -> str:
        return f"{self.where} is not a whole export: {self.why}; export again to another folder"


class ExportHead(msgspec.Struct, frozen=True, kw_only=True):
    """The first line: the source partition, and the offsets that the file covers, `first` up to `end`."""

    flow: str
    cluster_id: str
    topic: str
    partition: int
    first: int
    end: int
    format: int = FORMAT_VERSION


class ExportFoot(msgspec.Struct, frozen=True, kw_only=True):
    """The last line: how many records the file has, and the digest of their lines."""

    records: int
    digest: str


class ExportWriter:
    """Writes one file, record by record."""

    def __init__(self, file: BinaryIO, head: ExportHead) -> None:
        self._file = file
        self._digest = blake2b(digest_size=_DIGEST_BYTES)
        self._records = 0
        self._file.write(msgspec.json.encode(head) + b"\n")

    def write(self, records: Iterable[Record]) -> None:
        """Append records. Raises OSError."""
        for record in records:
            line = msgspec.json.encode(record) + b"\n"
            self._digest.update(line)
            self._file.write(line)
            self._records += 1

    def finish(self) -> ExportFoot:
        """Append the last line, and return it. Raises OSError."""
        foot = ExportFoot(records=self._records, digest=self._digest.hexdigest())
        self._file.write(msgspec.json.encode(foot) + b"\n")
        return foot


def read_back(file: BinaryIO, where: str) -> tuple[ExportHead, ExportFoot]:
    """Read a whole file and check it against its own last line. Raises BadExport, NewerFormat, OSError."""
    try:
        head = msgspec.json.decode(file.readline(), type=ExportHead)
        check_format(head.format, FORMAT_VERSION, where)
        return head, _check_records(file, head, where)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise BadExport(where, str(error)) from None


def _check_records(file: BinaryIO, head: ExportHead, where: str) -> ExportFoot:
    digest, records, last, line = blake2b(digest_size=_DIGEST_BYTES), 0, head.first - 1, b""
    for following in file:
        if line:
            record = msgspec.json.decode(line, type=Record)
            if not last < record.offset < head.end:
                raise BadExport(where, f"offset {record.offset} follows {last}, and the range ends at {head.end}")
            digest.update(line)
            records, last = records + 1, record.offset
        line = following
    foot = msgspec.json.decode(line, type=ExportFoot)
    if (foot.records, foot.digest) != (records, digest.hexdigest()):
        raise BadExport(where, f"it holds {records} records, and its last line says {foot.records} with another digest")
    return foot
