"""axe-core over a page, light and dark: nothing it calls serious or critical."""

from __future__ import annotations

from typing import Any

from axe_playwright_python.base import AXE_SCRIPT
from playwright.sync_api import Page

from tests.browser.pictures import SCHEMES, switch_scheme

_SEVERE = {"serious", "critical"}
# Only what is wrong comes over: what is right is a megabyte of a large page.
_RUN = "() => axe.run({ resultTypes: ['violations'] }).then((report) => report.violations)"


def severe(page: Page) -> list[str]:
    """Return what is severe, a line each: the rule, what it asks for, where."""
    found: list[str] = []
    if not page.evaluate("'axe' in window"):
        page.evaluate(AXE_SCRIPT)
    for scheme in SCHEMES:
        switch_scheme(page, scheme)
        violations: list[dict[str, Any]] = page.evaluate(_RUN)
        for violation in violations:
            if violation["impact"] in _SEVERE:
                places = "; ".join(str(node["target"]) for node in violation["nodes"][:5])
                detail = violation["nodes"][0]["failureSummary"].replace("\n", " ")
                found.append(f"{scheme}: {violation['id']} ({violation['help']}) at {places}: {detail}")
    return found
