"""Trying a draft as typed: its rows in every view, sandbox queries, the plan, and an end to what takes too long."""

from __future__ import annotations

import re
from collections.abc import Callable

import psycopg
from playwright.sync_api import Page, expect

from tests.browser.conftest import OpenPage
from tests.browser.editing import (
    ENDPOINTS,
    NEW_ENDPOINT,
    argument,
    cell,
    field,
    go_to_endpoint,
    rows,
    run,
    said_of_the_run,
    type_sql,
    wait_until_checked,
)
from tests.browser.pictures import take_pictures
from tests.browser.site import Site
from tests.live.calls import until

TYPES = """select @a::text as text, @n::int as n, @x::numeric as x, @yes::boolean as yes, @day::date as day,
  @at::timestamptz as moment, @words::text[] as words"""
SLEEP = "select pg_sleep(40), 'a sleeping draft' as marker"


def panel(page: Page, name: str) -> str:
    """Show a tab of the result and return what it says."""
    page.get_by_role("tab", name=name, exact=True).click()
    shown = page.get_by_role("tabpanel", name=name, exact=True)
    expect(shown).to_be_visible()
    return shown.inner_text()


def test_rows_are_shown_as_table_json_chart_and_statement(
    open_page: OpenPage, check_accessibility: Callable[[Page], None]
) -> None:
    page = open_page(ENDPOINTS, role="editor")
    go_to_endpoint(page, "logs.all")
    argument(page, "project").fill("acme")
    run(page)
    expect(said_of_the_run(page)).to_contain_text("100 rows")
    expect(said_of_the_run(page)).to_contain_text("cache: bypass")
    table = page.get_by_role("tabpanel", name="Table")
    expect(table.get_by_role("row")).to_have_count(101)
    table.get_by_role("button", name="Row 1 whole").click()
    expect(table.get_by_text('"request":').first).to_be_visible()
    table.get_by_role("button", name="Row 1 whole").click()
    check_accessibility(page)
    assert '"event_message": ' in panel(page, "JSON")
    assert "Line chart of rows across timestamp" in panel(page, "Chart")
    expect(page.get_by_role("img", name="Line chart of rows across timestamp")).to_be_visible()
    check_accessibility(page)
    statement = panel(page, "Statement")
    assert "= ($1::text)" in statement
    assert "acme" in statement
    page.get_by_role("button", name="Explain").click()
    expect(page.get_by_role("tabpanel", name="Plan")).to_contain_text("partitions touched")
    check_accessibility(page)
    take_pictures(page, "endpoint-plan")
    for name in ("Chart", "JSON", "Statement", "Table"):
        panel(page, name)
        take_pictures(page, f"endpoint-{name.lower()}")


def test_every_type_has_its_input_and_what_was_typed_stays(open_page: OpenPage) -> None:
    page = open_page(NEW_ENDPOINT)
    type_sql(page, "select 1 as a")
    wait_until_checked(page, "to save")
    type_sql(page, TYPES)
    expect(argument(page, "words")).to_be_visible()
    kinds = [argument(page, name).get_attribute("type") for name in ("a", "n", "x", "day", "at")]
    assert kinds == ["text", "number", "number", "date", "datetime-local"]
    argument(page, "a").fill("it's @n")
    argument(page, "n").fill("12")
    argument(page, "x").fill("1.25")
    argument(page, "yes").select_option("false")
    argument(page, "day").fill("2026-02-28")
    argument(page, "at").fill("2026-02-28T23:30:15")
    argument(page, "words").fill("one\ntwo")
    run(page)
    expect(said_of_the_run(page)).to_contain_text("1 row")
    first = page.get_by_role("tabpanel", name="Table").get_by_role("row").nth(1)
    values = first.get_by_role("cell").all_inner_texts()
    assert values[1:] == [
        "it's @n",
        "12",
        "1.25",
        "false",
        "2026-02-28",
        "2026-02-28T23:30:15.000000Z",
        '["one","two"]',
    ]
    cell(rows(page).nth(0), "allowed_values").fill("red\ngreen")
    expect(page.locator("select#wb-argument-a")).to_be_visible()
    argument(page, "a").select_option("green")
    cell(rows(page).nth(0), "type").select_option("timestamp")
    expect(page.locator("label", has_text="@a timestamp")).to_be_visible()
    expect(argument(page, "a")).to_have_value("")
    page.reload()
    type_sql(page, TYPES)
    expect(argument(page, "n")).to_have_value("12")


def test_digits_that_no_number_of_javascript_holds_are_shown(open_page: OpenPage) -> None:
    page = open_page(NEW_ENDPOINT)
    type_sql(page, "select 9007199254740993::bigint as big, '{\"deep\": [12345678901234567890.10]}'::jsonb as nested")
    run(page)
    expect(page.get_by_role("tabpanel", name="Table")).to_contain_text("9007199254740993")
    expect(page.get_by_role("tabpanel", name="Table")).to_contain_text("12345678901234567890.10")
    assert "9007199254740993" in panel(page, "JSON")


def test_a_click_on_a_column_sorts_its_rows(open_page: OpenPage) -> None:
    page = open_page(NEW_ENDPOINT)
    type_sql(page, "select n from (values (10), (9), (null), (-2)) as v (n)")
    run(page)
    table = page.get_by_role("tabpanel", name="Table")
    column = table.get_by_role("button", name="n", exact=True)
    numbers = table.locator("tbody td:nth-child(2)")
    expect(numbers).to_have_text(["10", "9", "null", "-2"])
    for expected in (["-2", "9", "10", "null"], ["10", "9", "-2", "null"], ["10", "9", "null", "-2"]):
        column.click()
        expect(numbers).to_have_text(expected)


def test_a_chart_is_chosen_by_the_columns_and_can_be_changed(open_page: OpenPage) -> None:
    page = open_page(NEW_ENDPOINT)
    type_sql(page, "select level, n from (values ('error', 3), ('info', 40), ('warning', 7)) as v (level, n)")
    run(page)
    expect(said_of_the_run(page)).to_contain_text("3 rows")
    assert "Bar chart of n across level: 3 values from 3 to 40" in panel(page, "Chart")
    page.get_by_role("tabpanel", name="Chart").get_by_role("combobox", name="Chart").select_option("line")
    expect(page.get_by_role("img", name="Line chart of n across level")).to_be_visible()
    page.get_by_text("The same as numbers").click()
    expect(page.get_by_role("cell", name="40", exact=True)).to_be_visible()
    type_sql(page, "select '{}'::jsonb as nothing_to_draw")
    run(page)
    expect(page.get_by_role("tabpanel", name="Chart")).to_contain_text("A chart needs a time")


WRONG_IN_A_DOUBLE = """select * from (values ('big', 9007199254740993, 1e-7::float8), ('even', 9007199254740992, 1e21),
  ('long', 123456789012345678901234567890.123456789, 'NaN'), ('none', null, 'Infinity'), ('tiny', 0.0004, -0.0004),
  ('trailing', 1.10, 2)) as v (k, n, x)"""


TICKS = """() => window.Chart.getChart(document.querySelector(".wb-canvas canvas"))
    .scales.y.ticks.map(({ label }) => label)"""


def test_the_axis_of_tiny_numbers_begins_at_nought_and_ends_above_them(open_page: OpenPage) -> None:
    page = open_page(NEW_ENDPOINT)
    for least, expected in (("0.0004", "0.0004"), ("1e-9::float8", "1e-9"), ("1234567", "1,400,000")):
        type_sql(page, f"select * from (values ('a', {least}), ('b', 0)) as v (k, n)")
        run(page)
        expect(said_of_the_run(page)).to_contain_text("2 rows")
        panel(page, "Chart")
        page.wait_for_function(f"last => ({TICKS})().at(-1) === last", arg=expected)  # the chart is drawn in a frame
        ticks = page.evaluate(TICKS)
        assert (ticks[0], ticks[-1]) == ("0", expected), least
        assert len(ticks) == len(set(ticks)) > 3, ticks
        panel(page, "Table")


def test_charts_and_tables_show_the_digits_of_the_database(open_page: OpenPage) -> None:
    page = open_page(NEW_ENDPOINT)
    type_sql(page, WRONG_IN_A_DOUBLE)
    run(page)
    expect(said_of_the_run(page)).to_contain_text("6 rows")
    table = page.get_by_role("tabpanel", name="Table").locator("tbody")
    table.page.get_by_role("button", name="n", exact=True).click()
    expect(table.locator("td:nth-child(3)")).to_have_text(
        ["0.0004", "1.10", "9007199254740992", "9007199254740993", "123456789012345678901234567890.123456789", "null"]
    )
    table.page.get_by_role("button", name="x", exact=True).click()
    expect(table.locator("td:nth-child(4)")).to_have_text(["-0.0004", "1e-07", "2", "1e+21", "Infinity", "NaN"])

    chart = page.get_by_role("tabpanel", name="Chart")
    panel(page, "Chart")
    said = "Bar chart of n, x across k: 9 values from -0.0004 to 123456789012345678901234567890.123456789."
    left = "Not drawn: 3 values (NULL, NaN or too large)."
    expect(page.get_by_role("img", name=f"{said} {left}")).to_be_visible()
    expect(chart.locator("figcaption")).to_have_text(f"{said} {left}")
    chart.get_by_text("The same as numbers").click()
    expect(chart.locator("tbody td:nth-child(3)")).to_have_text(
        [
            "9007199254740993",
            "9007199254740992",
            "123456789012345678901234567890.123456789",
            "0.0004",
            "1.10",
            "1e-07",
            "1e+21",
            "-0.0004",
            "2",
        ]
    )
    tooltips = """() => {
        const chart = window.Chart.getChart(document.querySelector(".wb-canvas canvas"));
        chart.tooltip.setActiveElements([{datasetIndex: 0, index: 0}, {datasetIndex: 1, index: 0}], {x: 0, y: 0});
        chart.update("none");
        return [chart.tooltip.title, chart.tooltip.body.flatMap(({ lines }) => lines)].flat();
    }"""
    for shape in ("Bars", "Line"):
        chart.get_by_role("combobox", name="Chart").select_option(shape)
        assert page.evaluate(tooltips) == ["big", "n: 9007199254740993", "x: 1e-07"], shape
        ticks = page.evaluate(TICKS)
        assert len(ticks) == len(set(ticks)), ticks
    take_pictures(page, "endpoint-chart-of-digits")


def test_consumers_queries_are_tried_with_the_list_of_their_tables(
    open_page: OpenPage, check_accessibility: Callable[[Page], None]
) -> None:
    page = open_page(ENDPOINTS)
    go_to_endpoint(page, "logs.all")
    wait_until_checked(page, "can be saved.")
    argument(page, "project").fill("acme")
    page.get_by_role("tab", name="SQL", exact=True).click()
    query = page.get_by_label("A consumer's SELECT over the sandbox tables")
    query.fill("select count(*) as n from ")
    page.locator("#wb-tables summary", has_text="auth_logs").click()
    page.locator("#wb-tables details[open]").get_by_role("button", name="Insert the table's name").click()
    expect(query).to_have_value("select count(*) as n from auth_logs")
    check_accessibility(page)
    take_pictures(page, "endpoint-sandbox")
    query.press("Control+Enter")
    expect(said_of_the_run(page)).to_contain_text("1 row")

    query.fill("select nothing\nfrom auth_logs")
    run(page)
    expect(page.get_by_role("alert")).to_contain_text("a consumer would get 400")
    take_pictures(page, "endpoint-refused")
    page.get_by_role("tab", name="LQL", exact=True).click()
    page.get_by_label("A consumer's LQL query").fill("s:event_message l:5")
    run(page)
    expect(said_of_the_run(page)).to_contain_text("rows")


def test_fields_of_a_bigquery_text_that_no_row_has_are_named_beside_the_rows(open_page: OpenPage) -> None:
    page = open_page(ENDPOINTS)
    go_to_endpoint(page, "logs.all")
    field(page, "sandbox_dialect").select_option("bigquery")
    argument(page, "project").fill("acme")
    page.get_by_role("tab", name="SQL", exact=True).click()
    query = page.get_by_label("A consumer's SELECT over the sandbox tables")
    query.fill("select m.methd from edge_logs cross join unnest(metadata) m limit 5")
    run(page)
    expect(said_of_the_run(page)).to_contain_text("5 rows")
    expect(said_of_the_run(page)).to_contain_text("metadata.methd: no sampled row has this field")


def test_what_fails_is_said_where_it_belongs(open_page: OpenPage, check_accessibility: Callable[[Page], None]) -> None:
    page = open_page(ENDPOINTS)
    go_to_endpoint(page, "logs.all")
    wait_until_checked(page, "can be saved.")
    run(page)
    expect(argument(page, "project")).to_have_attribute("aria-invalid", "true")
    expect(argument(page, "project")).to_be_focused()
    page = open_page(NEW_ENDPOINT)
    type_sql(page, "select 1 as a,\n  1/0 as b")
    run(page)
    alert = page.get_by_role("alert")
    expect(alert).to_contain_text("PostgreSQL: division by zero")
    expect(alert).to_contain_text("SQLSTATE 22012")
    said = alert.inner_text()
    assert said.startswith("PostgreSQL: division by zero")
    assert "To a consumer: " in said
    assert re.search(r"request [0-9a-f]{32}", said)
    check_accessibility(page)


def test_a_long_run_shows_its_progress_and_is_cancelled_in_postgresql(open_page: OpenPage, site: Site) -> None:
    page = open_page(NEW_ENDPOINT)
    field(page, "statement_timeout_seconds").fill("50")
    type_sql(page, SLEEP)
    run(page)
    until(lambda: sleeping(site) == 1, seconds=20)
    expect(page.get_by_role("progressbar", name="The query runs")).to_be_visible()
    expect(page.locator("#wb-elapsed")).to_contain_text("s of at most 50 s")
    expect(page.get_by_role("button", name="Run", exact=True)).to_be_disabled()
    page.get_by_role("button", name="Cancel", exact=True).click()
    expect(said_of_the_run(page)).to_contain_text("PostgreSQL has stopped the query.")
    assert sleeping(site) == 0
    expect(page.get_by_role("progressbar", name="The query runs")).to_be_hidden()


def test_leaving_the_page_ends_the_run(open_page: OpenPage, site: Site) -> None:
    page = open_page(NEW_ENDPOINT)
    field(page, "statement_timeout_seconds").fill("50")
    type_sql(page, SLEEP)
    run(page)
    until(lambda: sleeping(site) == 1, seconds=20)
    page.on("dialog", lambda dialog: dialog.accept())
    page.goto(ENDPOINTS)
    until(lambda: sleeping(site) == 0, seconds=20)


def sleeping(site: Site) -> int:
    with psycopg.connect(str(site.installation.servers.urls.superuser_url)) as connection:
        found = connection.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE state = 'active' AND query LIKE '%a sleeping draft%'"
            " AND pid <> pg_backend_pid()"
        ).fetchone()
    assert found is not None
    return int(found[0])


def test_a_run_is_shared_by_its_link_and_waits_for_a_click(open_page: OpenPage) -> None:
    page = open_page(ENDPOINTS)
    go_to_endpoint(page, "logs.all")
    wait_until_checked(page, "can be saved.")
    argument(page, "project").fill("acme & co=1")
    argument(page, "iso_timestamp_start").fill("2026-01-01T10:30")
    page.get_by_role("tab", name="LQL", exact=True).click()
    page.get_by_label("A consumer's LQL query").fill("c:count(*)")
    page.get_by_role("checkbox", name="Redact PII", exact=True).check()
    page.get_by_role("button", name="Copy link").click()
    expect(said_of_the_run(page)).to_contain_text("Copied: who opens this link")
    expect(said_of_the_run(page)).not_to_contain_text("unsaved")
    link = page.evaluate("navigator.clipboard.readText()")
    assert link == page.url
    field(page, "max_rows").fill("5")
    page.get_by_role("button", name="Copy link").click()
    expect(said_of_the_run(page)).to_contain_text("Your unsaved changes are not in it: save first.")

    elsewhere = open_page(link.removeprefix(link.split("/admin/")[0]))
    expect(argument(elsewhere, "project")).to_have_value("acme & co=1")
    expect(argument(elsewhere, "iso_timestamp_start")).to_have_value(re.compile("2026-01-01T10:30"))
    expect(elsewhere.get_by_label("A consumer's LQL query")).to_have_value("c:count(*)")
    expect(elsewhere.get_by_role("checkbox", name="Redact PII", exact=True)).to_be_checked()
    expect(said_of_the_run(elsewhere)).to_have_text("Filled in from the link: click Run.")
    expect(elsewhere.get_by_role("region", name="Result")).to_be_hidden()
    run(elsewhere)
    expect(said_of_the_run(elsewhere)).to_contain_text("0 rows")
    argument(elsewhere, "project").fill("globex")
    expect(elsewhere).not_to_have_url(re.compile("#"))
    expect(open_page(NEW_ENDPOINT).get_by_role("button", name="Copy link")).to_be_hidden()


def test_a_link_runs_nothing_and_becomes_no_markup(open_page: OpenPage) -> None:
    page = open_page(ENDPOINTS)
    go_to_endpoint(page, "logs.all")
    wait_until_checked(page, "can be saved.")
    stored = page.locator("textarea[name=sql]").input_value()
    hostile = "%3Cimg%20src%3Dx%20onerror%3Dalert(1)%3E"
    link = f"{page.url}#@project={hostile}&@__proto__=x&@sql=x&sql=select%201&redact=false&version=999999999"
    page = open_page(link.removeprefix(link.split("/admin/")[0]))
    expect(argument(page, "project")).to_have_value("<img src=x onerror=alert(1)>")
    expect(said_of_the_run(page)).to_contain_text("It was version 999999999 when the link was made")
    expect(page.get_by_role("region", name="Result")).to_be_hidden()
    expect(page.locator("textarea[name=sql]")).to_have_value(stored)
    expect(page.locator("#wb-arguments img")).to_have_count(0)
