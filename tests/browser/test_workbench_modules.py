"""What the endpoint's page decides without its elements: charts, exact numbers, completion; asked in the browser."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any, Final

import pytest
from playwright.sync_api import Page

from tests.browser.conftest import OpenPage

FOLDER: Final = "/static/endpoints"
TIME, NUMBER, TEXT = "timestamp with time zone", "bigint", "text"
HOUR: Final = 3_600_000
SOURCE: Final = {
    "name": "edge_logs",
    "table": "logs.edge_logs",
    "holds": "requests",
    "columns": [{"name": "id", "type": "uuid", "path": None}, {"name": "method", "type": "text", "path": "req.method"}],
    "metadata_paths": [
        {"path": "req.method", "type": "text", "rows": 9, "column": "method", "steps": ["0", "req", "0", "method"]},
        {"path": "req.x-id", "type": "text", "rows": 3, "column": None, "steps": ["0", "req", "0", "x-id"]},
    ],
}


@pytest.fixture
def page(open_page: OpenPage) -> Page:
    return open_page("/admin/endpoints/endpoint/")


def ask(page: Page, module: str, function: str, *arguments: Any) -> Any:
    """Call a function of a module with JSON and return its JSON."""
    return page.evaluate(
        "async ([address, name, all]) => JSON.parse(JSON.stringify((await import(address))[name](...all) ?? null))",
        [f"{FOLDER}/{module}.js", function, list(arguments)],
    )


def columns(*pairs: tuple[str, str]) -> list[dict[str, str]]:
    return [{"name": name, "type": type_} for name, type_ in pairs]


def test_the_columns_choose_the_chart(page: Page) -> None:
    moments = [f"2026-01-01T0{hour}:00:00.000000Z" for hour in range(3)]
    wide = [{"t": moment, "a": 1, "b": 2} for moment in moments]
    split = [{"t": moment, "k": kind, "n": 1} for moment in moments for kind in "xy"]
    cases: list[tuple[list[dict[str, str]], list[dict[str, Any]], Any]] = [
        (columns(("t", TIME), ("a", NUMBER), ("b", NUMBER)), wide, ("line", "t", ["a", "b"], "")),
        (columns(("t", TIME), ("k", TEXT), ("n", NUMBER)), split, ("line", "t", ["n"], "k")),
        (columns(("t", TIME), ("k", TEXT)), split, ("line", "t", [], "")),
        (columns(("k", TEXT), ("n", NUMBER)), split, ("bar", "k", ["n"], "")),
        (columns(("t", TEXT), ("n", NUMBER)), split, ("line", "t", ["n"], "")),
        (columns(("k", TEXT)), split, ("bar", "k", [], "")),
        (columns(("a", NUMBER), ("b", "numeric(9,2)")), wide, ("line", "a", ["b"], "")),
        (columns(("k", TEXT)), [{"k": "a"}, {"k": "b"}], None),
        (columns(("k", "jsonb")), [{"k": {}}], None),
        (columns(("n", NUMBER)), [], None),
    ]
    for named, rows, expected in cases:
        choice = ask(page, "workbench/chart_data", "suggest", named, rows)
        assert (choice and (choice["shape"], choice["across"], choice["values"], choice["split"])) == expected, named


def test_rows_are_counted_in_buckets_and_empty_ones_are_nought(page: Page) -> None:
    rows = [{"t": f"2026-01-01T{hour:02}:30:00.000000Z"} for hour in (0, 0, 3, 23)]
    choice = {"shape": "line", "across": "t", "values": [], "split": ""}
    drawing = ask(page, "workbench/chart_data", "draw", choice, columns(("t", TIME)), rows)
    (series,) = drawing["series"]
    values = [point["value"] for point in series["points"]]
    places = [point["across"] for point in series["points"]]
    assert sum(values) == 4
    assert len(values) <= 49
    assert values.count(0) == len(values) - 3
    assert {later - earlier for earlier, later in pairwise(places)} == {HOUR / 2}


def gaps_of(page: Page, moments: list[str]) -> list[int | None]:
    """Draw the value 1 at each moment and return the values, null at each gap."""
    rows = [{"t": moment, "n": 1} for moment in moments]
    choice = {"shape": "line", "across": "t", "values": ["n"], "split": ""}
    drawing = ask(page, "workbench/chart_data", "draw", choice, columns(("t", TIME), ("n", NUMBER)), rows)
    (series,) = drawing["series"]
    return [point["value"] for point in series["points"]]


def test_a_bucket_without_a_row_is_a_gap(page: Page) -> None:
    hours = [f"2026-01-01T{hour:02}:00:00.000000Z" for hour in (0, 1, 2, 5, 6)]
    assert gaps_of(page, hours) == [1, 1, 1, None, None, 1, 1]
    months = [f"2026-{month:02}-01T00:00:00.000000Z" for month in (1, 2, 3, 5)]
    assert gaps_of(page, months) == [1, 1, 1, None, 1]
    assert gaps_of(page, list(reversed(hours))) == [1, 1, 1, None, None, 1, 1]
    in_no_rhythm = ["2026-01-01T00:00:00Z", "2026-01-01T00:00:07Z", "2026-01-01T00:01:09Z", "2026-01-01T03:00:00Z"]
    assert gaps_of(page, in_no_rhythm) == [1, 1, 1, 1]
    assert gaps_of(page, hours[:2]) == [1, 1]


def test_what_is_not_drawn_is_told(page: Page) -> None:
    rows = [{"k": f"kind {number}", "n": number} for number in range(45)]
    named = columns(("k", TEXT), ("n", NUMBER))
    by_kind = {"shape": "bar", "across": "k", "values": ["n"], "split": ""}
    bars = ask(page, "workbench/chart_data", "draw", by_kind, named, rows)
    assert (len(bars["series"][0]["points"]), bars["left"]) == (40, "5 more values of k")
    split = {"shape": "line", "across": "n", "values": ["n"], "split": "k"}
    lines = ask(page, "workbench/chart_data", "draw", split, named, rows)
    assert (len(lines["series"]), lines["left"]) == (8, "37 more series")


def test_ticks_of_time_are_round_and_as_many_as_have_room(page: Page) -> None:
    day = 24 * HOUR
    for least, most, width in ((0, 10_000, 900), (123_456, 123_456 + 7 * HOUR, 300), (5 * day, 400 * day, 600)):
        ticks = [tick["value"] for tick in ask(page, "shared/time_axis", "timeTicks", least, most, width)]
        assert 2 <= len(ticks) <= max(3, width // 90) + 1
        assert all(least <= tick <= most and tick % 1000 == 0 for tick in ticks)
    texts = [tick["text"] for tick in ask(page, "shared/time_axis", "timeTicks", 90 * 60_000, day, 400)]
    assert texts == ["06:00", "12:00", "18:00", "01-02"]


def test_a_place_is_counted_in_characters_as_the_service_counts(page: Page) -> None:
    cases = [("", 1, None, 0), ("ab\ncd", 2, 2, 4), ("😀b", 1, 2, 2), ("a\n😀b", 2, 2, 4), ("a", 3, 1, 2)]
    for text, line, column, offset in cases:
        assert ask(page, "shared/failure", "offsetOf", text, line, column) == offset, text


@pytest.mark.parametrize(
    "text",
    [
        '{"result":[]}',
        '{"result":[{"a":9007199254740993,"b":1.10,"c":1e400,"d":"x\\"{[,:]}\\\\","e":null,"f":true,"g":{},"h":[1,[2]]}]}',
        '{"result":[{"":"\\u2028","b":-0.0}]}',
    ],
)
def test_json_is_laid_out_with_every_digit(page: Page, text: str) -> None:
    laid_out = ask(page, "shared/exact_json", "layOut", text)
    assert json.loads(laid_out, parse_float=str, parse_int=str) == json.loads(text, parse_float=str, parse_int=str)
    assert ask(page, "shared/exact_json", "layOut", laid_out) == laid_out
    if text != '{"result":[]}':
        assert laid_out.startswith('{\n  "result": [\n    {\n')


DIGITS: Final = [
    "9007199254740993",
    "-9007199254740993",
    "123456789012345678901234567890.12345678901234567890",
    "0.0004",
    "-0.00000000000000000001",
    "1e-07",
    "1e+21",
    "1.10",
    "-0.0",
    "1e400",
]


@pytest.mark.parametrize("tells_source", [True, False])
def test_json_is_read_and_written_with_every_digit_by_every_browser(page: Page, tells_source: bool) -> None:
    digits = ",".join(DIGITS)
    text = f'{{"result":[{{"a":{DIGITS[0]},"b":{{"c":[{digits}]}},"d 1.0":"1.10, \\"2\\": 9007199254740993"}}]}}'
    found = page.evaluate(
        """async ([address, text, tellsSource]) => {
            if (!tellsSource) {
                const parse = JSON.parse;
                JSON.parse = (text, revive) => parse(text, revive && ((key, value) => revive(key, value)));
                delete JSON.rawJSON;
            }
            const { parseExactly, writeExactly } = await import(address);
            const read = parseExactly(text);
            return [writeExactly(read), read.result[0].b.c.map(String), read.result[0].b.c.map(({ value }) => value)];
        }""",
        [f"{FOLDER}/shared/exact_json.js", text, tells_source],
    )
    assert found[:2] == [text, DIGITS]
    assert found[2][:9] == [float(digits) for digits in DIGITS[:9]]


def test_numbers_are_added_to_the_last_digit(page: Page) -> None:
    cases = [
        (["9007199254740993"], "9007199254740993"),
        (["1.10"], "1.10"),
        ([], "0"),
        (["0.1", "0.2"], "0.3"),
        (["9007199254740993", "9007199254740993"], "18014398509481986"),
        (["123456789012345678901234567890", "0.0004"], "123456789012345678901234567890.0004"),
        (["1e+21", "1"], "1000000000000000000001"),
        (["1e-07", "-3e-07"], "-0.0000002"),
        (["5", "-5.00"], "0"),
        (["-0.0", "0"], "0"),
        (["1.5", "8.5"], "10"),
    ]
    for texts, total in cases:
        assert ask(page, "shared/exact_json", "sumExactly", texts) == total, texts


def test_numbers_are_compared_to_the_last_digit(page: Page) -> None:
    ascending = [
        "-1e401", "-1e400", "-9007199254740993", "-9007199254740992", "-0.10", "-1e-07", "0", "1e-400", "0.0004",
        "0.00041", "9.5", "10", "9007199254740992", "9007199254740993", "9007199254740993.1", "1e+21", "1e400",
    ]  # fmt: skip
    for one, other in pairwise(ascending):
        assert ask(page, "shared/exact_json", "compareExactly", one, other) < 0, (one, other)
        assert ask(page, "shared/exact_json", "compareExactly", other, one) > 0, (one, other)
    for one, other in (("1.0", "1"), ("-0.0", "0"), ("1e+21", "1000000000000000000000"), ("0.10", "1e-1")):
        assert ask(page, "shared/exact_json", "compareExactly", one, other) == 0, (one, other)


def test_what_is_not_nought_is_not_written_as_nought(page: Page) -> None:
    cases = [
        (0, 2, "0.00"),
        (12.345, 1, "12.3"),
        (0.004, 2, "0.004"),
        (0.00012, 3, "0.0001"),
        (-0.04, 1, "-0.04"),
        (1e-9, 2, "1e-9"),
    ]
    for value, decimals, written in cases:
        assert ask(page, "shared/dom", "rounded", value, decimals) == written


def test_drawn_values_keep_their_digits(page: Page) -> None:
    """Numbers go to the page as texts here, as it would lose their digits on its way through Playwright."""
    named = columns(("k", TEXT), ("n", "numeric"))
    rows = [{"k": str(number), "n": digits} for number, digits in enumerate([*DIGITS[:9], "NaN", "Infinity", None])]
    bars = {"shape": "bar", "across": "k", "values": ["n"], "split": ""}
    drawing = ask(page, "workbench/chart_data", "draw", bars, named, rows)
    (series,) = drawing["series"]
    assert [point["text"] for point in series["points"]] == DIGITS[:9]
    assert [point["value"] for point in series["points"]] == [float(digits) for digits in DIGITS[:9]]
    assert drawing["left"] == "3 values (NULL, NaN or too large)"


def test_places_that_differ_in_their_last_digit_are_two(page: Page) -> None:
    named = columns(("id", NUMBER), ("n", NUMBER))
    rows = [{"id": digits, "n": 1} for digits in ("9007199254740993", "9007199254740992", None, "1.0", "1.00")]
    for shape in ("line", "bar"):
        choice = {"shape": shape, "across": "id", "values": ["n"], "split": ""}
        (series,) = ask(page, "workbench/chart_data", "draw", choice, named, rows)["series"]
        places = [(point["label"], point["text"]) for point in series["points"]]
        assert places == [("1.0", "2"), ("9007199254740992", "1"), ("9007199254740993", "1")], shape


def test_completion_offers_what_fits_at_the_cursor(page: Page) -> None:
    parameters = [{"name": "project", "type": "text"}]
    sql = "select * from logs.edge_logs as t where t.id = @project"
    cases = [
        ("where ", "@", ["@project"]),
        ("from logs.", "", ["edge_logs"]),
        ("where t.", "", ["id", "method", "method", """jsonb_path_query_first(t.metadata, '$.req."x-id"') #>> '{}'"""]),
        ("where u.", "", []),
        ("from logs.edge_logs as ", "t", []),
        ("limit ", "10", []),
        ("where ", "i", [
            "logs.edge_logs", "id", "method", "method",
            """jsonb_path_query_first(metadata, '$.req."x-id"') #>> '{}'""", "@project",
        ]),
    ]  # fmt: skip
    for before, prefix, expected in cases:
        at = {"sql": sql, "before": before, "prefix": prefix, "sources": [SOURCE], "parameters": parameters}
        assert [offer["value"] for offer in ask(page, "workbench/completion", "offers", at)] == expected, before


def test_inside_a_path_the_keys_below_it_are_offered_and_nothing_else(page: Page) -> None:
    sql = "select 1 from logs.edge_logs as t"
    cases = [
        ("metadata #>> '{", "", "", ["0,req"]),
        ("t.metadata #> '{0,", "re", "}'", ["req"]),
        ("metadata #>> '{0,req,", "", "}'", ["0,method", "0,x-id"]),
        ("metadata #>> '{0, req, 1, ", "m", "}'", ["method", "x-id"]),
        ("metadata #>> '{0,other,", "", "}'", []),
        ("u.metadata #>> '{", "", "}'", []),
        ("metadata -> ", "", "", ["0 -> 'req'"]),
        ("metadata -> 0 -> ", "", "", ["'req'"]),
        ("metadata -> 0 -> '", "re", "", ["req'"]),
        ("metadata -> 0 -> '", "re", "'", ["req"]),
        ("(t.metadata->0->'req'->0->>'", "", "'", ["method", "x-id"]),
        ("metadata -> 0 -> 'req' ->> ", "", "", []),
        ("metadata -> 0 -> 'req' -> 0 ->> ", "", "", ["'method'", "'x-id'"]),
    ]
    for before, prefix, after, expected in cases:
        at = {"sql": sql, "before": before, "prefix": prefix, "after": after, "sources": [SOURCE], "parameters": []}
        assert [offer["value"] for offer in ask(page, "workbench/completion", "offers", at)] == expected, before
