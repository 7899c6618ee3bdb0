"""Looking for rows: typed, clicked and shared; a mistake at its place; a long query ended; an endpoint made of it."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from urllib.parse import parse_qs, urlencode, urlsplit

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import OpenPage
from tests.browser.pictures import take_pictures
from tests.browser.site import Site

WEEK = "/admin/logs/?source=edge_logs&range=7d"


def rows(page: Page) -> list[str]:
    """The rows' lines once the search is over."""
    expect(page.get_by_role("heading", name=re.compile("newest first|No rows"))).to_be_visible()
    expect(page.get_by_role("button", name="Cancel")).to_be_hidden()
    return page.get_by_role("region", name=re.compile("newest first|No rows")).get_by_role("listitem").all_inner_texts()


def query(page: Page) -> dict[str, str]:
    return {name: values[0] for name, values in parse_qs(urlsplit(page.url).query).items()}


def test_a_query_is_completed_refined_shared_and_undone(
    open_page: OpenPage, check_accessibility: Callable[[Page], None]
) -> None:
    page = open_page(WEEK, role="editor")
    lql = page.get_by_role("combobox", name="LQL")
    assert len(rows(page)) == 100
    expect(page.get_by_role("heading", name="Rows per hour")).to_be_visible()
    take_pictures(page, "log-explorer")
    check_accessibility(page)

    lql.press_sequentially("m.response.stat")
    expect(page.get_by_role("option", name="m.response.status_code number")).to_be_visible()
    take_pictures(page, "log-explorer-completion")
    check_accessibility(page)
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    expect(lql).to_have_value("m.response.status_code:")
    lql.press_sequentially(">=400")
    page.keyboard.press("Escape")
    page.keyboard.press("Enter")
    found = rows(page)
    assert found
    assert all(re.search(r"\| [45]\d\d \|", row) for row in found)
    assert query(page) == {"source": "edge_logs", "range": "7d", "lql": "m.response.status_code:>=400"}

    page.locator("#lx-list > li").first.locator("summary").click()
    take_pictures(page, "log-explorer-row")
    check_accessibility(page)
    method = page.get_by_role("button", name=re.compile("^Filter out: metadata.request.method")).first
    refused = str(method.get_attribute("aria-label")).rpartition(" ")[2]
    method.click()
    expect(lql).to_have_value(f"m.response.status_code:>=400 -m.request.method:{refused}")
    assert not any(row.split("\n")[-1].startswith(f"{refused} |") for row in rows(page))

    shared = page.url
    page.go_back()
    expect(lql).to_have_value("m.response.status_code:>=400")
    assert rows(page) == found
    page.goto(shared)
    expect(lql).to_have_value(f"m.response.status_code:>=400 -m.request.method:{refused}")
    assert rows(page)


def test_the_histogram_narrows_the_range(open_page: OpenPage) -> None:
    page = open_page(WEEK, role="editor")
    rows(page)
    bars = page.get_by_role("button", name=re.compile(r"UTC: [\d,]+ rows?"))
    assert 168 <= bars.count() <= 169
    bars.nth(100).click()
    rows(page)
    # An hour is told by its minutes, and by itself again a step later.
    expect(page.get_by_role("heading", name="Rows per minute")).to_be_visible()
    narrowed = query(page)
    assert set(narrowed) == {"source", "start", "end"}
    expect(page.get_by_label("From (UTC)")).to_have_value(re.compile(re.escape(narrowed["start"][:16])))
    page.get_by_role("button", name="Zoom out").click()
    rows(page)
    assert query(page)["start"] < narrowed["start"]
    page.go_back()
    page.go_back()
    expect(page.get_by_label("Time range", exact=True)).to_have_value("7d")
    rows(page)

    expect(page.get_by_role("heading", name="Rows per hour")).to_be_visible()
    bars.last.focus()
    for key in ("Home", "ArrowRight", "Shift+ArrowRight", "Enter"):
        page.keyboard.press(key)
    rows(page)
    expect(page.get_by_label("Time range", exact=True)).to_have_value("custom")
    page.get_by_text("The histogram as a table").click()
    counted = page.get_by_role("group", name="The histogram as a table").get_by_role("row")
    expect(counted).to_have_count(121)  # two hours in minutes, and the head


def test_more_rows_follow_without_a_repetition(open_page: OpenPage) -> None:
    page = open_page(WEEK, role="editor")
    assert len(rows(page)) == 100
    page.get_by_role("button", name="Load more").click()
    expect(page.locator("#lx-list > li")).to_have_count(200)
    times = page.locator("#lx-list time").evaluate_all("(all) => all.map((one) => one.dateTime)")
    assert times == sorted(times, reverse=True)
    # Rows of one moment differ in their messages.
    shown = page.locator("#lx-list > li > details > summary").evaluate_all(
        "(all) => all.map((one) => one.querySelector('time').dateTime + one.textContent)"
    )
    assert len(set(shown)) == 200


def test_a_row_is_copied_where_browsers_have_no_clipboard(open_page: OpenPage) -> None:
    # As for a page that came over plain HTTP from another machine.
    page = open_page(WEEK, role="editor")
    page.add_init_script("Object.defineProperty(Navigator.prototype, 'clipboard', { value: undefined })")
    page.reload()
    rows(page)
    page.locator("#lx-list > li").first.locator("summary").click()
    page.get_by_role("button", name="Copy JSON").click()
    expect(page.get_by_role("status").filter(has_text="Copied")).to_have_count(1)
    lql = page.get_by_role("combobox", name="LQL")
    lql.focus()
    page.keyboard.press("Control+V")
    expect(lql).to_have_value(re.compile(r'^\{.*"timestamp": "20.*\}$'))


def test_a_mistake_is_shown_at_its_place(open_page: OpenPage, check_accessibility: Callable[[Page], None]) -> None:
    page = open_page(WEEK, role="editor")
    rows(page)
    lql = page.get_by_role("combobox", name="LQL")
    lql.fill("m.level:error m.request.path:/rest/v1")
    lql.press("Enter")
    alert = page.get_by_role("alert").filter(has_text="Line 1, column 30")
    expect(alert.locator("mark")).to_have_text("/rest/v1")
    take_pictures(page, "log-explorer-mistake")
    check_accessibility(page)
    alert.get_by_role("button", name="Go to column 30").click()
    assert lql.evaluate("(field) => field.value.slice(field.selectionStart, field.selectionEnd)") == "/rest/v1"
    page.get_by_label("Time range", exact=True).select_option("custom")
    page.get_by_label("From (UTC)").fill("")
    page.get_by_role("button", name="Run").click()
    expect(page.get_by_text("Choose a day and a time, or one of the ranges that end now.")).to_be_visible()


def test_no_rows_say_where_there_are_some(open_page: OpenPage, check_accessibility: Callable[[Page], None]) -> None:
    page = open_page("/admin/logs/?source=edge_logs&start=2020-01-01&end=2020-01-02", role="editor")
    assert rows(page) == []
    expect(page.get_by_text("The newest row of edge_logs is from")).to_be_visible()
    take_pictures(page, "log-explorer-empty")
    check_accessibility(page)
    page.get_by_role("button", name="Show the hour before it").click()
    expect(page.locator("#lx-list > li").first).to_be_visible()


def test_one_project_redacted(open_page: OpenPage) -> None:
    page = open_page(WEEK, role="editor", dark=True)
    page.get_by_label("Project").fill("acme")
    page.get_by_label("Redact PII").check()
    expect(page.get_by_text("REDACTED").first).to_be_visible()
    assert query(page) == {"source": "edge_logs", "range": "7d", "project": "acme", "redact": "1"}
    assert not any(re.search(r"globex|initech|\d+\.\d+\.\d+\.\d+ \|", row) for row in rows(page))


def test_what_was_found_becomes_an_endpoint(open_page: OpenPage, site: Site) -> None:
    page = open_page(f"{WEEK}&project=acme&lql=m.response.status_code:%3E=500", role="editor")
    rows(page)
    page.get_by_role("link", name="Save as endpoint").click()
    expect(page.get_by_label("sandboxing", exact=False).first).not_to_be_checked()
    expect(page.get_by_text("also what the final SELECT leaves out")).to_be_visible()
    page.locator("#id_name").fill("explored.errors")
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.get_by_text("explored.errors").first).to_be_visible()
    answer = page.request.get(
        "/api/endpoints/query/explored.errors?project=acme", headers={"X-API-KEY": site.secret}
    ).json()
    assert answer["result"]
    assert all(row["metadata"][0]["response"][0]["status_code"] >= 500 for row in answer["result"])
    refused = page.request.get(
        "/api/endpoints/query/explored.errors?project=acme&sql=select count(*) from edge_logs",
        headers={"X-API-KEY": site.secret},
    )
    assert (refused.status, refused.json()["error"]["code"]) == (400, "sandbox_disabled")


def test_a_long_query_is_really_ended(open_page: OpenPage) -> None:
    page = open_page(WEEK, role="editor")
    rows(page)
    # Back references have PostgreSQL try every way of cutting a message up.
    page.get_by_role("combobox", name="LQL").fill(r'~"(.+)(.+)(.+)\1\2\3$"')
    page.get_by_role("button", name="Run").click()
    page.get_by_role("button", name="Cancel").click()
    expect(page.get_by_text("Cancelled: PostgreSQL has stopped the query.")).to_be_visible()
    expect(page.get_by_role("button", name="Cancel")).to_be_hidden()
    page.get_by_role("combobox", name="LQL").fill("POST")
    page.get_by_role("button", name="Run").click()
    rows(page)


def test_the_histogram_and_the_rows_show_the_digits_of_the_database(open_page: OpenPage, site: Site) -> None:
    installation = site.installation
    digits = ["9007199254740993", "-9007199254740993", "0.0004", "-1e-7", "123456789012345678901234567890.5"]
    shown = [*digits[:3], "-0.0000001", digits[4]]
    row = '{"project":"digits","event_message":"%s","timestamp":"2026-01-05T10:0%d:00Z","metadata":{"n":%s}}'
    body = "\n".join(row % (one, minute, one) for minute, one in enumerate(digits)).encode()
    with installation.caller(secret=installation.console.do("issue", name="digits", may_load=True)) as caller:
        answer = caller.request(
            "POST", "/api/logs?source=edge_logs", body=body, **{"content-type": "application/x-ndjson"}
        )
        assert answer.status == 200
    hour = "source=edge_logs&start=2026-01-05T10:00:00Z&end=2026-01-05T10:10:00Z&project=digits"
    page = open_page(f"/admin/logs/?{hour}&lql=c:max(m.n)", role="editor")
    rows(page)
    expect(page.get_by_role("heading", name="max(m.n) per minute")).to_be_visible()
    bars = page.locator("#lx-bars [role=button]")
    for number, text in enumerate(shown):
        expect(bars.nth(number)).to_have_attribute("aria-label", re.compile(rf"UTC: max\(m\.n\) {re.escape(text)}$"))
    expect(page.locator(".lx-most")).to_have_text(f"{shown[1]} to {shown[4]}")
    page.get_by_text("The histogram as a table").click()
    expect(page.locator("#lx-table tbody td:nth-child(3)")).to_have_text([*shown, *["–"] * 5])
    take_pictures(page, "log-explorer-digits")

    page.goto(f"/admin/logs/?{hour}&lql=s:m.n@n")
    rows(page)
    expect(page.locator("table.lx-grid tbody td:nth-child(2)")).to_have_text(shown[::-1])
    page.locator("table.lx-grid").get_by_role("button", name="n", exact=True).click()
    expect(page.locator("table.lx-grid tbody td:nth-child(2)")).to_have_text(
        [shown[1], shown[3], shown[2], shown[0], shown[4]]
    )


def test_new_rows_appear_while_it_is_live(open_page: OpenPage, site: Site) -> None:
    installation = site.installation
    secret = installation.console.do("issue", name="live loader", may_load=True)

    def load(message: str, project: str = "acme") -> float:
        row = {"project": project, "event_message": message, "timestamp": datetime.now(UTC).isoformat()}
        with installation.caller(secret=secret) as caller:
            body, headers = json.dumps(row).encode(), {"content-type": "application/json"}
            assert caller.request("POST", "/api/logs?source=edge_logs", body=body, **headers).status == 200
        return time.monotonic()

    page = open_page("/admin/logs/?source=edge_logs&range=15m&project=acme", role="editor")
    rows(page)
    with page.expect_request("**/admin/logs/tail/"):
        page.get_by_label("Live: new rows as they come").check()
    first = page.locator("#lx-list > li").first
    delays = []
    for number in range(3):
        load("of another project", project="globex")
        loaded_at = load(f"live row {number}")
        expect(first).to_contain_text(f"live row {number}")
        delays.append(time.monotonic() - loaded_at)
    print(f"\nshown in the explorer after {max(delays):.2f} s at most")  # noqa: T201
    expect(page.locator("#lx-list")).not_to_contain_text("of another project")
    moment = datetime.now(UTC).isoformat()
    lines = [{"project": "acme", "event_message": f"line {n} of a trace", "timestamp": moment} for n in range(8)]
    with installation.caller(secret=secret) as caller:
        body, headers = json.dumps(lines).encode(), {"content-type": "application/json"}
        assert caller.request("POST", "/api/logs?source=edge_logs", body=body, **headers).status == 200
    expect(first).to_contain_text("line 7 of a trace")
    of_one_moment = page.locator("#lx-list > li").filter(has_text="of a trace")
    expect(of_one_moment).to_contain_text([f"line {n} of a trace" for n in reversed(range(8))])
    page.reload()
    expect(of_one_moment).to_contain_text([f"line {n} of a trace" for n in reversed(range(8))])
    page.get_by_label("Live: new rows as they come").set_checked(True)

    load("live row 2 again")
    expect(first).to_contain_text("live row 2 again")
    first.locator("summary").click()
    load("while somebody reads")
    expect(first).to_contain_text("while somebody reads")
    expect(page.locator(".lx-row[open]")).to_contain_text("live row 2 again")
    assert max(delays) < 10

    page.get_by_label("Live: new rows as they come").uncheck()
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    load("after the end")
    with page.expect_response("**/admin/logs/histogram/"):
        page.get_by_role("button", name="Run").click()
    assert not any("/tail/" in url for url in asked)

    # As a table, the oldest first is the exact reverse of the newest first.
    lql = urlencode({"lql": '"of a trace" s:event_message@message'})
    page = open_page(f"/admin/logs/?source=edge_logs&range=15m&project=acme&{lql}", role="editor")
    shown = page.locator(".lx-grid tbody > tr:first-child > td:nth-child(2)")
    expect(shown).to_have_text([f"line {n} of a trace" for n in reversed(range(8))])
    page.get_by_role("columnheader", name="timestamp").get_by_role("button").click()
    expect(shown).to_have_text([f"line {n} of a trace" for n in range(8)])
    page.get_by_role("columnheader", name="timestamp").get_by_role("button").click()
    expect(shown).to_have_text([f"line {n} of a trace" for n in reversed(range(8))])


def test_fields_of_any_name_are_filtered_counted_and_chosen_by_clicks(open_page: OpenPage, site: Site) -> None:
    secret = site.console.do("issue", name="loader of names", may_load=True)
    times = [(datetime.now(UTC) - timedelta(seconds=ago)).isoformat() for ago in range(4)]
    levels = ("error", "warn", "error", "error")
    batch = [
        {
            "id": f"named {number}",
            "project": "names",
            "event_message": "m",
            "timestamp": times[number],
            # Taken by a value, so the second name keeps its dots; a name without a dot needs quotes too.
            "metadata": {"log": "x", "log.level": level, "headers": {"x-real-ip": f"192.0.2.{number}", 'a "b"': level}},
        }
        for number, level in enumerate(levels)
    ]
    with site.installation.caller(secret=secret) as caller:
        headers = {"content-type": "application/json"}
        body = json.dumps(batch).encode()
        assert caller.request("POST", "/api/logs?source=rest_logs", body=body, **headers).status == 200

    page = open_page("/admin/logs/?source=rest_logs&range=1h&project=names", role="editor")
    lql = page.get_by_role("combobox", name="LQL")
    heading = page.get_by_role("heading", name=re.compile("newest first|No rows"))
    expect(heading).to_contain_text("4 rows")
    for path, value, written, count in (
        ('metadata."log.level"', "error", 'm."log.level":error', "3 rows"),
        ('metadata.headers."x-real-ip"', "192.0.2.0", 'm.headers."x-real-ip":"192.0.2.0"', "1 row"),
        (r'metadata.headers."a \"b\""', "error", r'm.headers."a \"b\"":error', "3 rows"),
    ):
        page.locator("#lx-list summary").first.click()
        page.get_by_role("button", name=f"Top values of {path}", exact=True).click()
        short = path.replace("metadata.", "m.")
        panel = page.get_by_role("region", name=f"Top values of {short}", exact=True)
        expect(panel.get_by_text("4 values counted.")).to_be_visible()
        panel.get_by_role("button", name=f"Filter for: {short} {value}", exact=True).click()
        expect(lql).to_have_value(written)
        expect(heading).to_contain_text(count)
        page.locator("#lx-list summary").first.click()
        page.locator("#lx-list").get_by_role("button", name=f"Filter out: {path} {value}", exact=True).click()
        expect(lql).to_have_value(f"-{written}")
        panel.get_by_role("button", name="Close").click()
        lql.fill("")
        lql.press("Enter")
        expect(heading).to_contain_text("4 rows")

    lql.press_sequentially("m.headers.x-r")
    page.get_by_role("option", name=re.compile("x-real-ip")).click()
    expect(lql).to_have_value('m.headers."x-real-ip":')
    lql.fill('s:m."log.level" s:m.headers."x-real-ip" s:m.headers."a \\"b\\""@quoted c:countd(m."log.level")')
    lql.press("Enter")
    expect(page.get_by_role("columnheader", name="m.log.level")).to_be_visible()
    page.locator(".lx-grid .lx-open").first.click()
    for path in ('metadata."log.level"', 'metadata.headers."x-real-ip"', r'metadata.headers."a \"b\""'):
        expect(page.get_by_role("button", name=f"Top values of {path}", exact=True)).to_be_visible()


VALUES = [
    "error",
    "NULL",
    "true",
    "12",
    "",
    "a b",
    'say "no"',
    "back\\slash",
    'both \\" of',
    "dash-ed",
    "-x",
    "(x)",
    "ünï",
]


@pytest.mark.parametrize(
    ("typed", "first"),
    [
        (
            "status",
            ["m.status", "m.response.status_code", "m.status_text", "m.cf.keepAliveStatus", "m.cf.unusedStatus"],
        ),
        (
            "STATUS",
            ["m.status", "m.response.status_code", "m.status_text", "m.cf.keepAliveStatus", "m.cf.unusedStatus"],
        ),
        ("m.cf", ["m.cf.keepAliveStatus", "m.cf.unusedStatus"]),
        ("m.cf.unusedStatus:1 stat", ["m.response.status_code", "m.status_text", "m.status", "m.cf.unusedStatus"]),
        ("event", ["event_message"]),
        ("", ["event_message", "m.cf.unusedStatus"]),
    ],
)
def test_the_field_that_fits_and_that_rows_have_is_offered_first(
    open_page: OpenPage, typed: str, first: list[str]
) -> None:
    page = open_page("/admin/logs/", role="editor")
    offered = page.evaluate(
        """async (typed) => {
            const { complete } = await import("/static/endpoints/explorer/offers.js");
            const rowsOf = {
                "cf.unusedStatus": 0, "cf.keepAliveStatus": 2, "response.status_code": 90, "status_text": 3, status: 1
            };
            const paths = Object.entries(rowsOf).map(([path, rows]) => ({ path, rows, type: "text" }));
            const known = { columns: [{ name: "event_message", type: "text" }], paths };
            const seen = { fields: new Map([["metadata.status", { type: "text", rows: 2, values: new Map() }]]) };
            return complete(typed, { known, seen, levels: [], sources: [] }).offers.map(({ text }) => text);
        }""",
        typed,
    )
    assert offered[: len(first)] == first


def test_values_are_offered_as_filters_write_them(open_page: OpenPage) -> None:
    page = open_page(WEEK, role="editor")
    written = page.evaluate(
        """async (texts) => {
            const { writeValue } = await import("/static/endpoints/explorer/offers.js");
            const { post } = await import("/static/endpoints/shared/http.js");
            return Promise.all(texts.map(async (text) => {
                const value = { kind: "text", text };
                const { lql } = await post("/admin/logs/filter/", { lql: "", path: ["metadata", "a"], value });
                return [`m.a:${writeValue(value)}`, lql];
            }));
        }""",
        VALUES,
    )
    assert [offered for offered, _ in written] == [filtered for _, filtered in written]


def test_paths_are_written_as_filters_write_them(open_page: OpenPage) -> None:
    page = open_page(WEEK, role="editor")
    names = ["a", "x-real-ip", "log.level", 'a "b" \\', "ü n", "a:(b", "\\\\d", "."]
    written = page.evaluate(
        """async (names) => {
            const { readPath, writePath } = await import("/static/endpoints/explorer/paths.js");
            const { post } = await import("/static/endpoints/shared/http.js");
            return Promise.all(names.map(async (name) => {
                const path = ["metadata", name, "b"];
                const value = { kind: "boolean", text: "true" };
                const { lql } = await post("/admin/logs/filter/", { lql: "", path, value });
                const same = JSON.stringify(readPath(writePath(path))) === JSON.stringify(path);
                return [writePath(path).replace("metadata.", "m.") + ":true", lql, same];
            }));
        }""",
        names,
    )
    assert [one[0] for one in written] == [one[1] for one in written]
    assert all(same for _, _, same in written)


TIMES = {
    "2026-01-31": "2026-01-31T00:00:00.000Z",
    " 2026-01-31 08:00 ": "2026-01-31T08:00:00.000Z",
    "2026-01-31T08:00:05.25Z": "2026-01-31T08:00:05.250Z",
    "2026-01-31 08:00:05 UTC": "2026-01-31T08:00:05.000Z",
    "2026-02-31": None,
    "2026-01-31 25:00": None,
    "31.1.2026": None,
    "": None,
}


def test_times_are_read_as_utc(open_page: OpenPage) -> None:
    page = open_page(WEEK, role="editor")
    read = page.evaluate(
        """async (texts) => {
            const { readMoment } = await import("/static/endpoints/explorer/address.js");
            return texts.map((text) => readMoment(text)?.toISOString() ?? null);
        }""",
        list(TIMES),
    )
    assert dict(zip(TIMES, read, strict=True)) == TIMES


def test_the_last_of_many_changes_is_what_is_shown(open_page: OpenPage) -> None:
    page = open_page(WEEK, role="editor")
    for source in ("auth_logs", "rest_logs", "storage_logs", "database_logs", "pooler_logs", "rest_logs"):
        page.get_by_label("Log source").select_option(source)
    rows(page)
    assert query(page)["source"] == "rest_logs"
    expect(page.locator("#lx-list")).to_contain_text(re.compile("Schema cache|Config reloaded|database"))
    page.go_back()
    expect(page.get_by_label("Log source")).to_have_value("pooler_logs")


def test_a_viewer_has_no_explorer(open_page: OpenPage) -> None:
    page = open_page("/admin/logsources/logsource/", role="viewer")
    expect(page.get_by_role("link", name="Log sources").first).to_be_visible()
    expect(page.get_by_role("link", name="Log explorer")).to_have_count(0)
    response = page.goto("/admin/logs/")
    assert response is not None
    assert response.status == 403
