"""A page at two widths, light and dark: it fits into the window. ENDPOINTS_PICTURES=yes also takes pictures of it.

They are for people, below `.local/pictures`; no test reads them, and making them takes longer than all else here.
"""

from __future__ import annotations

import os
from typing import Final, Literal

from playwright.sync_api import Page

from tests.files import PROJECT

FOLDER: Final = PROJECT / ".local" / "pictures"
ARE_WANTED: Final = bool(os.environ.get("ENDPOINTS_PICTURES"))
WIDE, NARROW = 1280, 390
HEIGHTS: Final = {WIDE: 900, NARROW: 844}
Scheme = Literal["light", "dark"]
SCHEMES: Final[tuple[Scheme, ...]] = ("light", "dark")

# What is wider than the window and no box that scrolls by itself.
_OVERHANG = """() => {
    const wide = document.documentElement.scrollWidth - document.documentElement.clientWidth;
    return wide > 1 ? wide : 0;
}"""


def take_pictures(page: Page, name: str) -> None:
    """Fail where the page as a whole has to be scrolled sideways; take all four pictures if they are wanted."""
    before = page.viewport_size
    for width in (WIDE, NARROW):
        page.set_viewport_size({"width": width, "height": HEIGHTS[width]})
        for scheme in SCHEMES:
            switch_scheme(page, scheme)
            overhang = page.evaluate(_OVERHANG)
            assert not overhang, f"{name} is {overhang} px too wide for a window of {width} px"
            if ARE_WANTED:
                page.screenshot(path=FOLDER / f"{name}-{width}-{scheme}.png", full_page=True, caret="initial")
    switch_scheme(page, "light")
    if before is not None:
        page.set_viewport_size(before)


def switch_scheme(page: Page, scheme: Scheme) -> None:
    """Switch the page as its own menu does: it asks the browser for its scheme only at the start."""
    page.emulate_media(color_scheme=scheme)
    # The page of the API is no page of the admin, and follows the browser at any time.
    page.evaluate(
        "(scheme) => { if (window.Alpine) Alpine.$data(document.documentElement).adminTheme = scheme }", scheme
    )
    settle(page)


def settle(page: Page) -> None:
    """Let what moves come to rest: two frames, then every transition under way is brought to its end."""
    page.evaluate(
        """async () => {
            const pause = (milliseconds) => new Promise((resume) => setTimeout(resume, milliseconds));
            const frame = () => new Promise(requestAnimationFrame);
            const rest = async () => {
                await frame(); await frame();
                const moving = document.getAnimations()
                    .filter((each) => each.effect?.getComputedTiming().endTime < 2000);
                for (const each of moving) each.finish();
                await Promise.allSettled(moving.map((each) => each.finished));
            };
            // A page in the background gets no frames, and a paused animation never ends.
            await Promise.race([rest(), pause(3000)]);
        }"""
    )
