"""X-Ignored-Arguments: names that the endpoint does not have, told to who sent them and to nobody else."""

from __future__ import annotations

import json
import re
from typing import Any
from urllib.parse import quote

import pytest

from endpoints.calling.query_requests import LONGEST_IGNORED, MOST_IGNORED
from endpoints.defining.saving import save_endpoint
from endpoints.models import Endpoint
from endpoints.sql.parameters import DeclaredParameter
from tests.conftest import ApiClient
from tests.endpoints.api.conftest import Ask

pytestmark = pytest.mark.django_db
NAME, PATH = "errors", "/api/endpoints/query/errors"
HEADER = "X-Ignored-Arguments"
ALLOWED = re.compile(r"[A-Za-z0-9._~%*-]+(, [A-Za-z0-9._~%*-]+)*")


@pytest.fixture(autouse=True)
def endpoint(db: None) -> Endpoint:
    return save_endpoint(Endpoint(name=NAME, sql="SELECT @status AS status"), [DeclaredParameter("status")])


NAMES: dict[str, tuple[str, str | None]] = {
    "none": ("", None),
    "the endpoint's own": ("status=1", None),
    "a misspelt one": ("statsu=1", "statsu"),
    "beside the right one": ("status=1&statsu=2", "statsu"),
    "several, as they were sent": ("zeta=1&alpha=2", "zeta, alpha"),
    "sent twice": ("statsu=1&statsu=2", "statsu"),
    "empty": ("statsu=", "statsu"),
    "of another case": ("Status=1", "Status"),
    "what every endpoint knows": ("format=csv&sql=&lql=&tail=&page_size=&page_token=", None),
    "a new line": ("a%0D%0AX-Evil:%201=1", "a%0D%0AX-Evil%3A%201"),
    "a comma": ("a,b=1", "a%2Cb"),
    "a star": ("*=1", "%2A"),
    "no name": ("=1", ""),
    "not ASCII": ("%C3%BC=1", "%C3%BC"),
}


@pytest.mark.parametrize("case", NAMES)
def test_names_what_changed_nothing(api: ApiClient, case: str) -> None:
    query, expected = NAMES[case]
    answer = api.get(f"{PATH}?{query}")
    assert answer.status_code == 200
    assert answer.headers.get(HEADER) == (expected or None)


@pytest.mark.parametrize("case", NAMES)
def test_the_way_before_django_says_the_same(ask: Ask, secret: str, case: str) -> None:
    query, expected = NAMES[case]
    for _ in range(2):  # what is remembered of a call says so too
        status, headers, _ = ask(query, path=PATH, x_api_key=secret)
        assert (status, headers.get(HEADER)) == (200, expected or None)


def test_names_of_a_body_count_too(api: ApiClient) -> None:
    body = json.dumps({"statsu": 1, "line\r\nbreak": {"a": 1}, "status": "x"})
    answer = api.post(PATH, body, content_type="application/json")
    assert answer[HEADER] == "statsu, line%0D%0Abreak"


LONG: dict[str, list[str]] = {
    "long": ["a" * 5000],
    "long beyond ASCII": ["ü𝄞" * 500],
    "as long as may be": ["a" * LONGEST_IGNORED],
    "many": [f"name{number}" for number in range(900)],
    "many and long": [f"{number}{'ü' * 200}" for number in range(50)],
    "control characters": ["".join(map(chr, range(1, 32))), "\x7f\x85\u2028"],
}


@pytest.mark.parametrize("case", LONG)
def test_the_header_is_short_and_plain_whatever_is_sent(api: ApiClient, case: str) -> None:
    names = LONG[case]
    answer = api.post(PATH, json.dumps(dict.fromkeys(names, 1)), content_type="application/json")
    value = answer[HEADER]
    assert ALLOWED.fullmatch(value), value
    shown = value.split(", ")
    assert len(shown) == min(len(names), MOST_IGNORED + 1)
    assert (shown[-1] == "*") == (len(names) > MOST_IGNORED)
    for name, each in zip(names, shown[:MOST_IGNORED], strict=False):
        assert quote(name, safe="").startswith(each.removesuffix("*"))
        assert len(each) <= LONGEST_IGNORED + 1
    assert len(value) < 1_000


def test_what_one_caller_misspelt_reaches_no_other(api: ApiClient) -> None:
    save_endpoint(Endpoint(name="cached", sql="SELECT @status AS status", cache_seconds=60), [])
    first = api.query("cached", {"status": "1", "secret-of-mine": "x"})
    second = api.query("cached", {"status": "1"})
    third = api.query("cached", {"status": "1", "other": "y"})
    assert [each["X-Cache"] for each in (first, second, third)] == ["miss", "hit", "hit"]
    assert [each.headers.get(HEADER) for each in (first, second, third)] == ["secret-of-mine", None, "other"]
    assert first["ETag"] == second["ETag"]
    known = api.query("cached", {"status": "1", "other": "y"}, if_none_match=first["ETag"])
    assert (known.status_code, known[HEADER]) == (304, "other")


@pytest.mark.parametrize("sent", [{"statsu": "1", "sql": "select 1 as n"}, {"statsu": "1", "lql": "s:event_message"}])
def test_a_sandbox_query_has_the_same_names(api: ApiClient, sent: dict[str, Any]) -> None:
    assert api.query("logs.all", {"project": "acme", **sent})[HEADER] == "statsu"
