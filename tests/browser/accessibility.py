"""axe-core over a page, light and dark: nothing it calls serious or critical."""

from __future__ import annotations

from typing import Any

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page

from tests.browser.pictures import SCHEMES, switch_scheme

_SEVERE = {"serious", "critical"}


def violations(page: Page) -> list[str]:
    """Return what is severe, a line each: the rule, what it asks for, where."""
    found: list[str] = []
    for scheme in SCHEMES:
        switch_scheme(page, scheme)
        report: dict[str, Any] = Axe().run(page).response
        for violation in report["violations"]:
            if violation["impact"] in _SEVERE:
                places = "; ".join(str(node["target"]) for node in violation["nodes"][:5])
                detail = violation["nodes"][0]["failureSummary"].replace("\n", " ")
                found.append(f"{scheme}: {violation['id']} ({violation['help']}) at {places}: {detail}")
    return found
