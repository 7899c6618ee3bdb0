"""Defining an endpoint in the browser: completed, checked while typing, laid out, saved; nothing typed is ever lost."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from endpoints.sql.parameters import find_parameters
from tests.browser.conftest import OpenPage
from tests.browser.editing import (
    ENDPOINTS,
    NEW_ENDPOINT,
    argument,
    cell,
    declared,
    field,
    focus_editor,
    go_to_endpoint,
    problem,
    rows,
    run,
    said_of_the_draft,
    said_of_the_run,
    sql_of,
    type_sql,
    wait_until_checked,
)
from tests.browser.pictures import WIDE, take_pictures
from tests.browser.site import Site
from tests.documented_queries import documented_queries


def test_an_endpoint_is_written_with_completion_tried_and_saved(open_page: OpenPage) -> None:
    page = open_page(NEW_ENDPOINT)
    expect(said_of_the_draft(page)).to_contain_text("Write one SELECT")
    page.wait_for_load_state("networkidle")
    field(page, "name").fill("browser.written")
    focus_editor(page)
    page.keyboard.type("select t.id from logs.edg", delay=40)
    expect(page.locator(".ace_autocomplete")).to_contain_text("edge_logs")
    page.keyboard.press("Enter")
    page.keyboard.type(" as t where t.proje", delay=40)
    expect(page.locator(".ace_autocomplete .ace_selected")).to_contain_text("project")
    page.keyboard.press("Enter")
    page.keyboard.insert_text(" = @project and t.timestamp > @start")
    assert sql_of(page) == "select t.id from logs.edge_logs as t where t.project = @project and t.timestamp > @start"
    wait_until_checked(page, "No problems: it can be saved.")
    assert declared(page) == [("project", "text"), ("start", "timestamp")]

    page.get_by_role("button", name="Format").click()
    expect(page.get_by_text("Formatted. Undo with Ctrl+Z.")).to_be_visible()
    formatted = "SELECT t.id\nFROM logs.edge_logs AS t\nWHERE t.project = @project\n  AND t.timestamp > @start"
    assert sql_of(page) == formatted
    focus_editor(page)
    page.keyboard.press("Control+Z")
    assert sql_of(page).startswith("select t.id from")
    page.get_by_role("button", name="Format").click()
    expect(page.locator("textarea[name=sql]")).to_have_value(formatted)
    argument(page, "project").fill("acme")
    page.get_by_role("button", name="@start: −7 d").click()
    run(page)
    expect(said_of_the_run(page)).to_contain_text("rows · ")
    page.get_by_role("button", name="Save and continue editing").click()
    expect(page.get_by_text("was added successfully")).to_be_visible()
    assert declared(page) == [("project", "text"), ("start", "timestamp")]
    wait_until_checked(page, "No problems: it can be saved.")
    expect(argument(page, "project")).to_have_value("acme")


def test_a_click_gives_a_query_to_begin_with(open_page: OpenPage) -> None:
    page = open_page(NEW_ENDPOINT)
    page.get_by_role("button", name="auth_logs", exact=True).click()
    assert sql_of(page).startswith("SELECT t.timestamp, t.id, t.event_message\nFROM logs.auth_logs AS t\n")
    expect(page.get_by_role("group", name="Parameters of the SQL")).to_contain_text("@start timestamp")
    assert declared(page) == [("project", "text"), ("start", "timestamp")]
    argument(page, "project").fill("acme")
    page.get_by_role("button", name="@start: −7 d").click()
    run(page)
    expect(said_of_the_run(page)).to_contain_text("rows · ")
    type_sql(page, " ")
    expect(page.get_by_role("button", name="edge_logs", exact=True)).to_be_visible()
    wait_until_checked(page, "Write one SELECT")


def test_completion_offers_metadata_paths_and_parameters_and_no_word_that_is_written_out(open_page: OpenPage) -> None:
    page = open_page(NEW_ENDPOINT)
    page.wait_for_load_state("networkidle")
    field(page, "name").fill("browser.completed")
    type_sql(page, "select 1 from logs.edge_logs as t where t.project = @project and true ")
    wait_until_checked(page, "It can be saved.")
    offers = page.locator(".ace_autocomplete")
    page.keyboard.type("@")
    expect(offers).to_contain_text("@project")
    page.keyboard.press("Backspace")
    page.keyboard.press("Control+Space")
    expect(offers).to_contain_text("logs.edge_logs")
    page.keyboard.type("request.")
    expect(offers).to_contain_text("request.")
    page.keyboard.press("Escape")
    page.keyboard.type(" and 1")
    expect(offers).to_be_hidden()


def test_a_fault_is_shown_at_its_line_and_a_missing_time_bound_warned_of(open_page: OpenPage) -> None:
    page = open_page(NEW_ENDPOINT)
    field(page, "name").fill("browser.faulty")
    type_sql(page, "select t.id,\n  t.nothing\nfrom logs.edge_logs as t")
    wait_until_checked(page, "1 error: fix it to save.")
    fault = problem(page, "column t.nothing does not exist")
    expect(fault).to_contain_text("Error in line 2")
    expect(page.locator(".wb-editor .ace_gutter-cell.ace_error")).to_have_text("2")
    expect(page.locator(".wb-editor .wb-mark-error")).to_have_count(1)
    page.keyboard.press("Control+Home")
    fault.get_by_role("button", name="Go to line 2").click()
    page.keyboard.insert_text("id as a, ")
    page.keyboard.press("Control+A")
    page.keyboard.insert_text("select t.id\nfrom logs.edge_logs as t")
    wait_until_checked(page, "1 warning. It can be saved.")
    expect(problem(page, "is read without a time range")).to_contain_text("Warning in line 2")


@pytest.mark.parametrize("height", [680, 900])
def test_problems_are_never_under_the_bar_that_saves(open_page: OpenPage, height: int) -> None:
    page = open_page(NEW_ENDPOINT)
    page.set_viewport_size({"width": WIDE, "height": height})
    field(page, "name").fill("browser.seen")
    type_sql(page, "select t.id,\n  t.nothing\nfrom logs.edge_logs as t")
    wait_until_checked(page, "1 error: fix it to save.")
    page.wait_for_function(
        """() => {
            const bottom = document.querySelector("#wb-problem-list li").getBoundingClientRect().bottom;
            return bottom <= document.querySelector("#submit-row").getBoundingClientRect().top;
        }"""
    )


def test_where_there_is_room_the_rows_are_beside_the_editor(open_page: OpenPage) -> None:
    page = open_page(NEW_ENDPOINT)
    type_sql(page, "select 1 as a")
    run(page)
    results = page.get_by_role("region", name="Result")
    beside = """() => {
        const left = document.querySelector("#wb-results").getBoundingClientRect().left;
        return left >= document.querySelector(".wb-editor").getBoundingClientRect().right;
    }"""
    expect(results).to_be_visible()
    assert not page.evaluate(beside)
    page.set_viewport_size({"width": 1720, "height": 950})
    page.wait_for_function(beside)
    take_pictures(page, "endpoint-beside")


def test_rows_of_parameters_follow_the_sql_until_somebody_touches_them(open_page: OpenPage) -> None:
    page = open_page(NEW_ENDPOINT)
    type_sql(page, "select 1 as a")
    expect(page.get_by_text("No parameters: write @name")).to_be_visible()
    type_sql(page, "select @level as a, @n::int as n, @since::timestamptz as s")
    expect(page.get_by_role("group", name="Parameters of the SQL")).to_contain_text("@since timestamp")
    assert declared(page) == [("level", "text"), ("n", "integer"), ("since", "timestamp")]

    cell(rows(page).nth(1), "default").fill("5")
    cell(rows(page).nth(2), "description").fill("From when on.")
    type_sql(page, "select @n::int as n, @since::timestamptz as s")
    expect(rows(page)).to_have_count(2)
    expect(cell(rows(page).nth(0), "default")).to_have_value("5")
    expect(cell(rows(page).nth(1), "description")).to_have_value("From when on.")

    for shown in ("minimum", "maximum"):
        expect(cell(rows(page).nth(1), shown)).to_be_visible()
    expect(cell(rows(page).nth(1), "pattern")).to_be_hidden()
    expect(rows(page).nth(1).get_by_role("heading", name="@since")).to_be_visible()
    type_sql(page, "select @since::timestamptz as s")
    expect(problem(page, "@n: is declared but not used in the SQL")).to_be_visible()
    expect(rows(page)).to_have_count(2)
    problem(page, "@n:").get_by_role("button", name="Go to @n").click()
    expect(cell(rows(page).nth(0), "name")).to_be_focused()


def test_every_documented_query_is_pasted_without_an_error(open_page: OpenPage) -> None:
    page = open_page(NEW_ENDPOINT)
    page.wait_for_load_state("networkidle")
    field(page, "name").fill("browser.documented")
    for name, sql in documented_queries():
        type_sql(page, sql)
        # The one on README.md bounds no time, which is a warning.
        wait_until_checked(page, "t can be saved.")
        types = dict(declared(page))
        assert set(types) == set(find_parameters(sql)), name
        assert types.get("min_status", "integer") == "integer"
        assert types.get("since", "timestamp") == "timestamp"


def test_the_type_of_a_row_follows_what_is_typed_around_its_parameter(open_page: OpenPage) -> None:
    page = open_page(NEW_ENDPOINT)
    field(page, "name").fill("browser.retyped")
    before = "select id from logs.edge_logs where timestamp > now() and @level"
    type_sql(page, before)
    wait_until_checked(page, "No problems")
    assert declared(page) == [("level", "boolean")]
    type_sql(page, f"{before} <= length(id)")
    expect(cell(rows(page), "type")).to_have_value("integer")
    wait_until_checked(page, "No problems")
    cell(rows(page), "description").fill("Touched: the type stays.")
    type_sql(page, before)
    wait_until_checked(page, "1 error")
    assert declared(page) == [("level", "integer")]


def test_saving_what_is_faulty_loses_nothing_typed(open_page: OpenPage) -> None:
    page = open_page(NEW_ENDPOINT)
    field(page, "name").fill("browser.unsaved")
    field(page, "description").fill("Kept all the same.")
    faulty = "select @level as a,\n  nothing -- a note\nfrom logs.edge_logs"
    type_sql(page, "select @level as a")
    expect(page.get_by_role("group", name="Parameters of the SQL")).to_contain_text("@level text")
    type_sql(page, faulty)
    row = rows(page)
    cell(row, "allowed_values").fill("error\nwarning")
    field(page, "max_rows").fill("77")
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.get_by_text("Please correct the error")).to_be_visible()
    expect(field(page, "name")).to_have_value("browser.unsaved")
    expect(field(page, "description")).to_have_value("Kept all the same.")
    expect(field(page, "max_rows")).to_have_value("77")
    assert sql_of(page) == faulty
    expect(page.locator(".wb-editor .ace_content")).to_contain_text("nothing -- a note")
    expect(cell(row, "allowed_values")).to_have_value("error\nwarning")
    assert declared(page) == [("level", "text")]
    expect(problem(page, 'column "nothing" does not exist')).to_contain_text("Error in line 2")


def test_a_save_by_somebody_else_is_told_before_ones_own(open_page: OpenPage, site: Site) -> None:
    name = "browser.edited-by-two"
    site.console.do("save", name=name, parameters={}, settings={"sql": "select 1 as one"})
    page = open_page(f"{ENDPOINTS}?q={name}")
    go_to_endpoint(page, name)
    type_sql(page, "select 2 as mine")
    page.evaluate("window.dispatchEvent(new Event('focus'))")
    wait_until_checked(page, "No problems")
    notice = page.locator("#wb-newer")
    expect(notice).to_be_hidden()
    site.console.do("save", name=name, parameters={}, settings={"sql": "select 3 as theirs"})
    page.evaluate("window.dispatchEvent(new Event('focus'))")
    expect(notice).to_contain_text("saved version 2 at")
    expect(notice).to_contain_text("you are editing version 1")
    assert sql_of(page) == "select 2 as mine"
    take_pictures(page, "endpoint-newer")
    with page.context.expect_page() as opened:
        notice.get_by_role("link", name="See what has changed").click()
    expect(opened.value.get_by_text("From version 1 to version 2")).to_be_visible()
    page.on("dialog", lambda dialog: dialog.accept())
    page.reload()
    page.evaluate("window.dispatchEvent(new Event('focus'))")
    wait_until_checked(page, "No problems")
    expect(notice).to_be_hidden()


def test_inside_a_metadata_path_its_keys_are_completed(open_page: OpenPage) -> None:
    page = open_page(NEW_ENDPOINT)
    page.wait_for_load_state("networkidle")
    type_sql(page, "select t.metadata #>> x from logs.edge_logs as t")
    for _ in range(len("x from logs.edge_logs as t")):
        page.keyboard.press("ArrowLeft")
    page.keyboard.press("Delete")
    page.keyboard.type("'{", delay=40)
    offers = page.locator(".ace_autocomplete")
    expect(offers).to_contain_text("request")
    expect(offers).not_to_contain_text("edge_logs")
    page.keyboard.type("0,", delay=40)
    expect(offers).to_contain_text("request")
    page.keyboard.type("requ", delay=40)
    expect(offers).to_contain_text("request")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(page.locator("textarea[name=sql]")).to_have_value(re.compile(r"metadata #>> '\{0,request"))


def test_the_end_of_the_session_loses_nothing_typed(open_page: OpenPage, site: Site) -> None:
    page = open_page(NEW_ENDPOINT)
    field(page, "name").fill("browser.after-the-session")
    page.context.clear_cookies(name="sessionid")
    type_sql(page, "select 'typed when the session was over' as a")
    wait_until_checked(page, "Your session is over")
    page.get_by_role("button", name="Save and continue editing").click()
    expect(page.get_by_role("alert")).to_contain_text("Nothing was sent")
    page.context.clear_cookies(name="csrftoken")
    page.context.add_cookies([site.session_cookie("owner")])
    elsewhere = page.context.new_page()
    elsewhere.goto(NEW_ENDPOINT)  # brings a CSRF token of its own, as a login does
    elsewhere.close()
    page.evaluate("window.dispatchEvent(new Event('focus'))")
    wait_until_checked(page, "No problems")
    page.get_by_role("button", name="Save and continue editing").click()
    expect(page.get_by_text("was added successfully")).to_be_visible()
    assert sql_of(page) == "select 'typed when the session was over' as a"


def test_the_keyboard_runs_and_leaves_the_editor(open_page: OpenPage) -> None:
    page = open_page(NEW_ENDPOINT)
    type_sql(page, "select 7 as seven")
    page.keyboard.press("Control+Enter")
    expect(said_of_the_run(page)).to_contain_text("1 row")
    assert sql_of(page) == "select 7 as seven"
    page.keyboard.press("Escape")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.closest('.ace_editor') === null")


def test_who_may_not_run_drafts_sees_none_of_it(open_page: OpenPage) -> None:
    page = open_page(ENDPOINTS, role="viewer")
    go_to_read(page, "logs.all")
    for gone in ("Run", "Explain", "Format", "Save"):
        expect(page.get_by_role("button", name=gone, exact=True)).to_have_count(0)
    expect(page.get_by_role("region", name="Problems")).to_have_count(0)
    expect(page.get_by_text("from logs.edge_logs as t").first).to_be_visible()


def test_the_page_is_readable_by_everybody(open_page: OpenPage, check_accessibility: Callable[[Page], None]) -> None:
    page = open_page(NEW_ENDPOINT)
    expect(said_of_the_draft(page)).to_contain_text("Write one SELECT")
    check_accessibility(page)
    type_sql(page, "select t.id,\n  t.nothing, @level as a, @level2 as b\nfrom logs.edge_logs as t")
    wait_until_checked(page, "to save.")
    check_accessibility(page)
    take_pictures(page, "endpoint-problems")

    empty = open_page(NEW_ENDPOINT)
    expect(said_of_the_draft(empty)).to_contain_text("Write one SELECT")
    take_pictures(empty, "endpoint-new")

    saved = open_page(ENDPOINTS, role="editor")
    go_to_endpoint(saved, "logs.all")
    wait_until_checked(saved, "it can be saved.")
    check_accessibility(saved)
    take_pictures(saved, "endpoint")

    read = open_page(ENDPOINTS, role="viewer")
    go_to_read(read, "logs.all")
    check_accessibility(read)
    take_pictures(read, "endpoint-viewer")


def go_to_read(page: Page, name: str) -> None:
    page.get_by_role("link", name=name, exact=True).click()
    expect(page.get_by_text(name, exact=True).first).to_be_visible()
