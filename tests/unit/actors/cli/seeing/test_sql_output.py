"""The answer of a query as a table, as JSON lines and as CSV: values, limits, and what is no plain value."""

import json
from collections.abc import Iterator

import pyarrow as pa
import pytest

from actors.cli.seeing.sql_output import cell, print_csv, print_json, print_table
from engine.jobs.sql.query import SqlAnswer, SqlSession, sql_session

VALUES = """\
SELECT 7 AS number, 0.1::DOUBLE AS part, NULL AS nothing, 'a,"b' AS word, TRUE AS flag, [1, 2] AS list,
    {'k': 1} AS pair, MAP {'m': 2} AS map, epoch_ms(1_700_000_000_123) AS at, DATE '2023-11-14' AS day,
    1.50::DECIMAL(5, 2) AS price, 'NaN'::DOUBLE AS no_number, INTERVAL 90 SECOND AS span"""


@pytest.fixture
def session() -> Iterator[SqlSession]:
    with sql_session() as opened:
        opened.register("many", pa.table({"n": list(range(3_000))}))
        yield opened


def test_json_is_an_object_per_row_of_plain_values(session: SqlSession, capsys: pytest.CaptureFixture[str]) -> None:
    print_json(session.ask(VALUES))
    assert json.loads(capsys.readouterr().out) == {
        "number": 7,
        "part": 0.1,
        "nothing": None,
        "word": 'a,"b',
        "flag": True,
        "list": [1, 2],
        "pair": {"k": 1},
        "map": {"m": 2},
        "at": "2023-11-14T22:13:20.123000",
        "day": "2023-11-14",
        "price": "1.50",
        "no_number": None,
        "span": "PT90S",
    }
    print_json(session.ask("FROM many"))
    assert [json.loads(line)["n"] for line in capsys.readouterr().out.splitlines()] == list(range(3_000))


def test_csv_has_a_line_of_names_and_quotes_what_needs_it(
    session: SqlSession, capsys: pytest.CaptureFixture[str]
) -> None:
    print_csv(session.ask(VALUES))
    names, values = capsys.readouterr().out.splitlines()
    assert names == "number,part,nothing,word,flag,list,pair,map,at,day,price,no_number,span"
    assert values == (
        '7,0.1,,"a,""b",true,"[1,2]","{""k"":1}","{""m"":2}",2023-11-14 22:13:20.123000,2023-11-14,1.50,nan,0:01:30'
    )
    print_csv(session.ask("SELECT 1 AS a WHERE false"))
    assert capsys.readouterr().out == "a\n"


def test_people_see_some_rows_and_whether_there_are_more(
    session: SqlSession, capsys: pytest.CaptureFixture[str]
) -> None:
    print_table(session.ask("SELECT n, 'row [red]' || n AS word FROM many ORDER BY n"), 2)
    assert [line.rstrip() for line in capsys.readouterr().out.splitlines()] == [
        "n  word",
        "0  row [red]0",
        "1  row [red]1",
        "there are more than 2 rows: --rows N shows N, --json and --csv write all",
    ]
    print_table(session.ask("FROM many LIMIT 2"), 2)
    assert "more" not in capsys.readouterr().out
    print_table(session.ask("FROM many WHERE n < 0"), 2)
    assert [line.rstrip() for line in capsys.readouterr().out.splitlines()] == ["n", "no rows"]


def test_people_see_short_values(session: SqlSession) -> None:
    (row,) = session.ask(VALUES).rows()
    assert [cell(value) for value in row] == [
        *("7", "0.1", "-", 'a,"b', "true", "[1,2]", '{"k":1}', '{"m":2}'),
        *("2023-11-14 22:13:20", "2023-11-14", "1.50", "nan", "0:01:30"),
    ]
    assert [cell(value) for value in (1234567.0, 0.0, 2 / 3, 0.00001234, -5.5)] == [
        *("1234567", "0", "0.667", "1.23e-05", "-5.5")
    ]


def test_numbers_are_to_the_right(session: SqlSession, capsys: pytest.CaptureFixture[str]) -> None:
    answer: SqlAnswer = session.ask("SELECT * FROM (VALUES (1, 'x', NULL), (200, 'long', NULL)) v(a, b, c)")
    print_table(answer, 5)
    assert [line.rstrip() for line in capsys.readouterr().out.splitlines()] == [
        "  a  b     c",
        "  1  x     -",
        "200  long  -",
    ]
