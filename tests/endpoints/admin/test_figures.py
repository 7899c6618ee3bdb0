"""Numbers as the admin's pages write them: what is not nought is not written as nought."""

from __future__ import annotations

import pytest

from endpoints.admin import figures


@pytest.mark.parametrize(
    ("milliseconds", "written"),
    [
        (None, "—"),
        (0, "0 ms"),
        (0.0004, "0.0004 ms"),
        (0.015, "0.015 ms"),
        (0.049, "0.049 ms"),
        (0.8, "0.8 ms"),
        (0.996, "1 ms"),
        (1, "1.0 ms"),
        (9.94, "9.9 ms"),
        (12.4, "12 ms"),
        (999.4, "999 ms"),
        (999.6, "1.00 s"),
        (1_234_567, "1,234.57 s"),
    ],
)
def test_a_duration_has_the_unit_and_the_digits_that_fit(milliseconds: float | None, written: str) -> None:
    assert figures.duration(milliseconds) == written


@pytest.mark.parametrize(
    ("share", "written"),
    [(None, "—"), (0, "0 %"), (0.0004, "< 1 %"), (0.5, "50 %"), (0.9996, "> 99 %"), (1, "100 %")],
)
def test_only_none_is_nought_per_cent_and_only_all_is_a_hundred(share: float | None, written: str) -> None:
    assert figures.percent(share) == written
