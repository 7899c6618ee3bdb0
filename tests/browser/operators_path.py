"""The path that docs/operators.md describes, from the login form to rows in a terminal, with the names it uses.

What the page writes in bold is a name on a page of the admin; what it writes as code is typed.
"""

from __future__ import annotations

import re
import subprocess
from typing import Final, Literal

from playwright.sync_api import Locator, Page, expect

from tests.browser.editing import field, type_sql, wait_until_checked
from tests.browser.pictures import PROJECT

DOCUMENT: Final = PROJECT / "docs" / "operators.md"
TITLE: Final = "## Your first endpoint in three minutes\n"
NAME, CALLER, TENANT = "errors.by-hour", "my laptop", "acme"
TYPED: Final = (NAME, CALLER, TENANT, "project", f"project={TENANT}", "ACCESS_TOKEN=")
Role = Literal["button", "checkbox", "link", "tab"]


def section() -> str:
    """Return the path's own part of the page."""
    return DOCUMENT.read_text(encoding="utf-8").partition(TITLE)[2].partition("\n## ")[0]


def names_in(text: str) -> list[str]:
    """Return what is bold, in order."""
    return re.findall(r"\*\*(.+?)\*\*", text)


def sql_in(text: str) -> str:
    """Return the query that the reader copies: the block that begins with SELECT, without its indentation."""
    lines = text.splitlines()
    first = next(number for number, line in enumerate(lines) if line.lstrip().startswith("select "))
    margin = len(lines[first]) - len(lines[first].lstrip())
    last = lines.index("", first)
    return "\n".join(line[margin:] for line in lines[first:last])


class Operator:
    """Somebody who follows the page; `named` is what was clicked and filled in, as the admin names it."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.named: list[str] = []

    def click(self, role: Role, name: str) -> None:
        self.named.append(name)
        # The icon of some labels counts as one more word of theirs.
        self.page.get_by_role(role, name=re.compile(rf"^([a-z_]+ )?{re.escape(name)}( [a-z_]+)?$")).click()

    def fill(self, name: str, control: Locator, text: str) -> None:
        """Fill in a field that is labelled like this."""
        self.named.append(name)
        expect(control).to_have_accessible_name(re.compile(rf"^{re.escape(name)}\W*$"))
        control.fill(text)

    # --- The steps ----------------------------------------------------------------------------------------------------
    def log_in(self, user: str, password: str) -> None:
        self.fill("Username", self.page.get_by_label("Username"), user)
        self.fill("Password", self.page.get_by_label("Password"), password)
        self.click("button", "Log in")
        expect(self.page.get_by_role("region", name="Health")).to_be_visible()

    def write(self, sql: str) -> None:
        self.click("link", "Endpoints")
        self.named.append("+")
        self.page.get_by_title("Add endpoint").click()
        self.fill("Name", field(self.page, "name"), NAME)
        self.named.append("SQL")
        expect(self.page.locator("label[for=id_sql]")).to_have_text(re.compile(r"^\s*SQL\W*$"))
        type_sql(self.page, sql)
        wait_until_checked(self.page, "No problems: it can be saved.")

    def try_it(self) -> None:
        self.named.append("Try it")
        self.fill("@project text", self.page.get_by_role("region", name="Try it").get_by_label("@project"), TENANT)
        self.click("button", "Run")
        expect(self.page.get_by_role("tabpanel", name="Table").get_by_role("row").nth(1)).to_be_visible()

    def draw(self) -> None:
        self.click("tab", "Chart")
        expect(self.page.get_by_role("img", name="Line chart of errors across hour")).to_be_visible()

    def protect(self) -> None:
        """Let nobody see another project's rows."""
        self.click("checkbox", "Required")
        self.fill("Tenant parameter", field(self.page, "tenant_parameter"), "project")

    def save(self) -> None:
        self.click("button", "Save and continue editing")
        expect(self.page.get_by_text("was added successfully")).to_be_visible()
        self.click("link", "Usage")

    def issue(self) -> None:
        self.click("link", "Issue an access token")
        self.fill("Name", self.page.get_by_label("Name"), CALLER)
        self.fill("Bound arguments", self.page.get_by_label("Bound arguments"), f"project={TENANT}")
        self.click("button", "Save")
        expect(self.page.get_by_role("heading", name="Copy the secret now")).to_be_visible()

    def copy(self, name: str) -> str:
        """Click one of the copy buttons and return what it has put into the clipboard."""
        self.page.evaluate("navigator.clipboard.writeText('')")
        self.click("button", name)
        # It says "Copied" for a moment only, which may be over before a slow machine has looked.
        text: str = self.page.wait_for_function("() => navigator.clipboard.readText()").json_value()
        return text


def in_a_terminal(secret: str, call: str) -> str:
    """Return what the shell prints when both are pasted as the page says."""
    script = f"ACCESS_TOKEN={secret}\n{call}\n"
    return subprocess.run(["/bin/sh"], input=script, capture_output=True, text=True, check=True, timeout=60).stdout
