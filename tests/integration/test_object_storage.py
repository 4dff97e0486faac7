"""A storage in a bucket of a real S3 server: commits of tables, credentials, and what is told if it cannot be used."""

import re
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake
from deltalake.exceptions import DeltaError

from engine.jobs.runtime import storage_files
from engine.jobs.runtime.storage_access import access_of
from engine.jobs.runtime.storage_check import StorageUnusable, check_bucket, worded
from engine.jobs.runtime.storage_files import open_storage
from tests.harness.s3_requests import put_new, read
from tests.harness.s3_server import BUCKET, KEY, SECRET, S3Server, full_s3_server, s3_server

pytestmark = [pytest.mark.local, pytest.mark.full]

ROUNDS, RACERS = 10, 16
ROOT = f"s3a://{BUCKET}/mirror"
SCHEMA = pa.schema([("writer", pa.int64()), ("number", pa.int64())])
MIB = 1024 * 1024


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    with s3_server(tmp_path_factory.mktemp("s3")) as started:
        yield started


@pytest.fixture
def reached(server: S3Server, monkeypatch: pytest.MonkeyPatch) -> S3Server:
    """The server, named by the environment as users name theirs."""
    for name, value in server.environment().items():
        monkeypatch.setenv(name, value)
    return server


def test_one_of_racing_conditional_puts_wins(server: S3Server) -> None:
    """The store gives what commits need; without that, the other tests here mean nothing."""
    for round_number in range(ROUNDS):
        name, together = f"raced-{round_number}", threading.Barrier(RACERS)

        def put(racer: int, name: str = name, together: threading.Barrier = together) -> int:
            together.wait()
            return put_new(server, name, b"%d" % racer).status

        with ThreadPoolExecutor(RACERS) as racers:
            answers = list(racers.map(put, range(RACERS)))
        (winner,) = [racer for racer, status in enumerate(answers) if status == 200]
        assert set(answers) <= {200, 409, 412}
        assert read(server, name).body == b"%d" % winner


def rows(writer: int, number: int) -> pa.Table:
    return pa.table({"writer": [writer] * 3, "number": [number] * 3}, schema=SCHEMA)


def counted(uri: str) -> dict[tuple[int, int], int]:
    """Count the rows of each writer's append."""
    found: dict[tuple[int, int], int] = {}
    for row in pa.table(DeltaTable(uri, storage_options=access_of(uri)).to_pyarrow_table()).to_pylist():
        key = row["writer"], row["number"]
        found[key] = found.get(key, 0) + 1
    return found


def test_appends_that_race_are_all_there_once(reached: S3Server) -> None:
    uri, writers, appends = f"{ROOT}/appended", 4, 3
    DeltaTable.create(uri, SCHEMA, storage_options=access_of(uri))
    together = threading.Barrier(writers)

    def append(writer: int) -> None:
        together.wait()
        for number in range(appends):
            write_deltalake(uri, rows(writer, number), mode="append", storage_options=access_of(uri))

    with ThreadPoolExecutor(writers) as threads:
        list(threads.map(append, range(writers)))
    assert counted(uri) == {(writer, number): 3 for writer in range(writers) for number in range(appends)}


def test_of_two_commits_of_one_batch_one_counts(reached: S3Server) -> None:
    uri = f"{ROOT}/batches"
    DeltaTable.create(uri, SCHEMA, storage_options=access_of(uri))
    handles = [DeltaTable(uri, storage_options=access_of(uri)) for _ in range(2)]
    together = threading.Barrier(len(handles))

    def commit(writer: int) -> str:
        properties = CommitProperties(app_transactions=[Transaction("lane", 7)])
        together.wait()
        try:
            write_deltalake(handles[writer], rows(writer, 7), mode="append", commit_properties=properties)
        except DeltaError as error:
            return str(error)
        return ""

    with ThreadPoolExecutor(len(handles)) as threads:
        refusals = list(threads.map(commit, range(len(handles))))
    (refusal,) = [one for one in refusals if one]
    assert "oncurrent transaction" in refusal
    assert counted(uri) == {(refusals.index(""), 7): 3}


def test_a_profile_leads_to_the_store_as_variables_do(
    reached: S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = f"aws_access_key_id = {KEY}\naws_secret_access_key = {SECRET}\n"
    endpoint = reached.environment()["AWS_ENDPOINT_URL"]
    (tmp_path / "credentials").write_text(f"[lab]\n{keys}")
    (tmp_path / "config").write_text(f"[profile lab]\nendpoint_url = {endpoint}\n")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_ENDPOINT_URL"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_PROFILE", "lab")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    uri = f"{ROOT}/profile"
    DeltaTable.create(uri, SCHEMA, storage_options=access_of(uri))
    check_bucket(uri)
    assert DeltaTable(uri, storage_options=access_of(uri)).version() == 0


def test_a_check_leaves_nothing_behind(reached: S3Server) -> None:
    check_bucket(f"{ROOT}/checked")
    assert not list((reached.folder / BUCKET).rglob(".raymirror-*"))


@pytest.mark.parametrize(
    ("changed", "uri", "complaint", "may_pass"),
    [
        ({}, "s3a://nobody", r"NO_SUCH_BUCKET: .*; create the bucket, or name another", False),
        (
            {"AWS_SECRET_ACCESS_KEY": "guessed"},
            ROOT,
            r"SIGNATURE_DOES_NOT_MATCH: .*; give the process AWS_ACCESS_",
            False,
        ),
        ({"AWS_ACCESS_KEY_ID": "stranger"}, ROOT, r"access key.*; give the process AWS_ACCESS_KEY_ID", False),
        ({"AWS_ACCESS_KEY_ID": ""}, ROOT, r"ACCESS_DENIED: .*; see that the process has credentials", False),
        ({"AWS_ENDPOINT_URL": "http://127.0.0.1:1"}, ROOT, r"Could not connect .*; see that the store runs", True),
    ],
)
def test_a_store_that_cannot_be_used_is_told_in_one_line(
    changed: dict[str, str],
    uri: str,
    complaint: str,
    may_pass: bool,
    reached: S3Server,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, value in changed.items():
        monkeypatch.setenv(name, value)
    # The client of a store is kept, with the credentials that it has found.
    storage_files._s3.cache_clear()
    try:
        with pytest.raises(StorageUnusable, match=rf"^raymirror\.storage: {re.escape(uri)} cannot be used: ") as told:
            check_bucket(uri)
    finally:
        storage_files._s3.cache_clear()
    assert re.search(complaint, str(told.value))
    assert told.value.may_pass == may_pass
    assert "\n" not in str(told.value)
    assert SECRET not in str(told.value)
    assert "guessed" not in str(told.value)


def test_a_store_that_is_full_is_told_and_keeps_nothing_half_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with full_s3_server(tmp_path, 4 * MIB) as server:
        for name, value in server.environment().items():
            monkeypatch.setenv(name, value)
        table, plain = f"{ROOT}/filled", f"{ROOT}/plain"
        DeltaTable.create(table, SCHEMA, storage_options=access_of(table))
        files, path = open_storage(plain)

        def write_plain() -> None:
            with worded(plain), files.open_output_stream(path) as stream:
                stream.write(b"x" * 8 * MIB)

        def append() -> None:
            many = pa.table({"writer": range(MIB), "number": range(MIB)}, schema=SCHEMA)
            write_deltalake(table, many, mode="append", storage_options=access_of(table))

        refused(StorageUnusable, "make room in the store", write_plain)
        assert not files.get_file_info(path).is_file
        refused((DeltaError, OSError), "No space left|InsufficientStorage", append)
        assert counted(table) == {}
        write_deltalake(table, rows(1, 1), mode="append", storage_options=access_of(table))
        assert counted(table) == {(1, 1): 3}


def refused(kind: type[Exception] | tuple[type[Exception], ...], why: str, write: Callable[[], None]) -> None:
    with pytest.raises(kind) as told:
        write()
    assert re.search(why, str(told.value))
