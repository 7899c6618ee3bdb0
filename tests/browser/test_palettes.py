"""Pictures with fewer colours: the same picture where there were few, a close one where there were many."""

from __future__ import annotations

import base64
import struct
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page

from tests.browser.palettes import COLOURS, reduce_colours

STRIPES = """<body style="margin: 0">
<p style="color: #345; font: 16px monospace">select 1 -- 0123456789</p>
<p style="background: repeating-linear-gradient(45deg, #d00 0 5px, #fff 5px 11px); height: 40px"></p>"""
RAINBOW = "<body style='margin: 0; background: linear-gradient(90deg, red, yellow, lime, aqua, blue)'>"


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    page = browser.new_page(viewport={"width": 200, "height": 120})
    yield page
    page.context.close()


def shown(page: Page, picture: bytes) -> bytes:
    """Return what Chromium photographs when it shows this picture."""
    page.set_content(
        f"<body style='margin: 0'><img src='data:image/png;base64,{base64.b64encode(picture).decode()}'"
        " style='display: block'>"
    )
    page.wait_for_function("document.images[0].complete")
    return page.screenshot()


def colours(picture: bytes) -> int:
    at = picture.index(b"PLTE")
    return int(struct.unpack(">I", picture[at - 4 : at])[0]) // 3


def test_few_colours_stay_as_they_are(page: Page) -> None:
    page.set_content(STRIPES)
    photograph = page.screenshot()
    reduced = reduce_colours(photograph)
    assert colours(reduced) < COLOURS
    assert shown(page, reduced) == photograph


def test_many_colours_become_fewer_and_close(page: Page) -> None:
    page.set_content(RAINBOW)
    photograph = page.screenshot()
    reduced = reduce_colours(photograph)
    assert colours(reduced) == COLOURS
    assert shown(page, reduced) != photograph
    again = shown(page, reduced)
    assert shown(page, reduce_colours(again)) == again


@pytest.mark.parametrize("picture", [b"", b"GIF89a"])
def test_refuses_what_is_no_png(picture: bytes) -> None:
    with pytest.raises(ValueError, match="not a PNG"):
        reduce_colours(picture)
