"""The format that an Accept header asks for: RFC 9110, section 12.5.1."""

from __future__ import annotations

import pytest

from endpoints.api import negotiation
from endpoints.api.negotiation import preferred_format
from endpoints.errors import NotAcceptable
from endpoints.results.outcomes import ResultFormat
from tests.linear import takes_longer_than

JSON, CSV, NDJSON = ResultFormat.JSON, ResultFormat.CSV, ResultFormat.NDJSON
PARQUET, ARROW = ResultFormat.PARQUET, ResultFormat.ARROW
BROWSER = "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,*/*;q=0.8"

ACCEPTED = {
    # No wish.
    "": JSON,
    "  ": JSON,
    "*/*": JSON,
    "*": JSON,
    "*/*;q=0.1": JSON,
    BROWSER: JSON,
    # One type, in every spelling.
    "application/json": JSON,
    "text/csv": CSV,
    "TEXT/Csv": CSV,
    " text/csv ": CSV,
    "application/x-ndjson": NDJSON,
    "application/vnd.apache.parquet": PARQUET,
    "application/vnd.apache.arrow.stream": ARROW,
    "Application/Vnd.Apache.Parquet;q=0.5": PARQUET,
    # Parameters make it no other type.
    "text/csv; charset=utf-8": CSV,
    "text/csv;charset=UTF-8": CSV,
    'text/csv; charset="utf-8"': CSV,
    "text/csv ; header=present": CSV,
    "text/csv; header=present; charset=utf-8; q=0.3": CSV,
    "application/json; charset=utf-8": JSON,
    "application/json;odata=verbose": JSON,
    "application/x-ndjson; charset=utf-8, */*;q=0.1": NDJSON,
    'text/csv; note="a, b; q=0", image/png': CSV,
    # Wildcards.
    "text/*": CSV,
    "application/*": JSON,
    "text/*; charset=utf-8": CSV,
    "text/html, */*;q=0.1": JSON,
    "text/csv, */*;q=0.1": CSV,
    # The highest quality, then the closest range, then the first.
    "application/json;q=0.1, text/csv": CSV,
    "application/json;q=0.1, text/csv;q=0.2, application/x-ndjson;q=0.3": NDJSON,
    "application/json; q=0.5, text/csv; Q=0.9": CSV,
    "text/csv, application/json": CSV,
    "application/json, text/csv": JSON,
    "text/csv;q=0.5, application/json;q=0.5": CSV,
    "*/*, text/csv": CSV,
    "text/*, application/json": JSON,
    "text/csv;q=.5, */*;q=.4": CSV,
    "text/csv;q=1.000, application/json;q=0.999": CSV,
    "application/json, text/plain, */*": JSON,
    # The closest range decides, also where another one says more.
    "application/json;q=0, */*": CSV,
    "application/json;q=0, text/csv;q=0, */*;q=0.1": NDJSON,
    "*/*;q=0.9, application/json;q=0.1": CSV,
    "text/*;q=0, */*;q=0.1, application/json;q=0.05": NDJSON,
    "text/csv; charset=utf-8;q=0.2, text/csv;q=0.9, application/json;q=0.5": JSON,
    "text/csv; charset=latin-1;q=0, text/csv": CSV,
    "text/csv;q=0.2, text/csv;q=0.8, application/json;q=0.5": CSV,
    # A quality that is none counts as absent.
    "text/csv;q=high, application/json;q=0.9": CSV,
    "text/csv;q=-1, application/json;q=0.9": CSV,
    "text/csv;q=nan, application/json;q=0.9": CSV,
    "text/csv;q=7, application/json": CSV,
    "text/csv;q=, application/json;q=0.9": CSV,
    # A wildcard is a binary format only if it can be nothing else.
    "application/vnd.apache.parquet, */*;q=0.9": PARQUET,
    "application/vnd.apache.arrow.stream;q=0.9, application/vnd.apache.parquet": PARQUET,
    "application/vnd.apache.arrow.stream, application/json": ARROW,
    "application/json, application/vnd.apache.arrow.stream": JSON,
    "application/*, application/json;q=0": NDJSON,
    "application/*, application/json;q=0, application/x-ndjson;q=0": PARQUET,
    # What is no range means nothing.
    "csv, text/csv": CSV,
    "text/csv,": CSV,
    ",, text/csv": CSV,
    'text/csv, "': CSV,
    "*/csv, text/csv;q=0.1": CSV,
}
REFUSED = [
    "image/png",
    "text/html",
    "text/csvx",
    "image/*",
    "application/json;q=0",
    "*/*;q=0",
    "*/*;q=0.000",
    "text/csv;q=0, text/*;q=0",
    "csv",
    "/",
    ",",
    '"text/csv"',
    "text/csv/x",
    ";q=1",
]


@pytest.mark.parametrize("accept", ACCEPTED)
def test_the_format_is_the_one_that_the_header_prefers(accept: str) -> None:
    assert preferred_format(accept) is ACCEPTED[accept]


@pytest.mark.parametrize("accept", REFUSED)
def test_a_header_that_allows_no_format_is_refused(accept: str) -> None:
    with pytest.raises(NotAcceptable):
        preferred_format(accept)


def test_without_its_library_a_format_is_not_offered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(negotiation, "OFFERED", (JSON, CSV, NDJSON))
    # Asked past the memory of headers, which other tests fill.
    for accept in (PARQUET.value, f"{PARQUET.value}, {ARROW.value};q=0", f"{PARQUET.value}, image/png"):
        with pytest.raises(NotAcceptable) as error:
            negotiation._preferred_format(accept)
        assert error.value.message.endswith(f" It lacks the extra [arrow], which writes {PARQUET.value}.")
        assert [detail["media_type"] for detail in error.value.details] == [JSON, CSV, NDJSON]
    with pytest.raises(NotAcceptable) as error:
        negotiation._preferred_format("image/png")
    assert "extra" not in error.value.message
    assert negotiation._preferred_format(f"{PARQUET.value}, text/csv;q=0.1") is CSV
    assert negotiation._preferred_format("*/*, application/json;q=0") is CSV


@pytest.mark.parametrize("piece", ['"', ",", ";a=", ';a="\\', "text/csv,", "*/*;q=0,", '"\\', " ", "a", ';a=";'])
def test_a_header_of_any_kind_is_read_at_once(piece: str) -> None:
    assert not takes_longer_than(0.2, lambda: preferred_format((piece * 16_384)[:16_384]), refusals=(NotAcceptable,))
