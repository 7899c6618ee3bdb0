"""An access token in the address, `?api_key=…`: off unless switched on, and then nowhere but where it belongs."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import quote

import pytest

from endpoints.access.access_tokens import issue_access_token
from endpoints.api.authentication import take_token_from_address
from endpoints.defining.saving import save_endpoint
from endpoints.errors import InternalError
from endpoints.models import Endpoint
from endpoints.sql.parameters import DeclaredParameter
from tests.endpoints.api.conftest import Ask
from tests.endpoints.api.loads import row

pytestmark = pytest.mark.django_db
PATH = "/api/endpoints/query/echo"


@pytest.fixture(autouse=True)
def switched_on(settings: Any) -> None:
    settings.ENDPOINTS_API_KEY_IN_ADDRESS = True


@pytest.fixture(autouse=True)
def echo(db: None) -> Endpoint:
    sql = "SELECT @api_key AS api_key, @word AS word"
    endpoint = Endpoint(name="echo", sql=sql, cache_seconds=60)
    return save_endpoint(endpoint, [DeclaredParameter("api_key"), DeclaredParameter("word")])


@pytest.fixture
def ask(ask: Ask) -> Ask:
    """Ask the endpoint unless another path is given."""
    return lambda query, **options: ask(query, **{"path": PATH, **options})


def echoed(answer: tuple[int, dict[str, str], bytes]) -> dict[str, Any]:
    assert answer[0] == 200, answer
    (found,) = json.loads(answer[2])["result"]
    return dict(found)


@pytest.mark.parametrize("method", ["GET", "POST", "HEAD"])
@pytest.mark.parametrize("name", ["api_key", "api%5Fkey", "%61pi_key"])
def test_a_token_in_the_address_is_taken_and_is_no_argument(ask: Ask, secret: str, method: str, name: str) -> None:
    for query in (f"{name}={secret}&word=a", f"word=a&{name}={quote(secret, safe='')}&", f"word=a&{name}=%20{secret}"):
        answer = ask(query, method=method)
        assert answer[0] == 200
        if method != "HEAD":
            assert echoed(answer) == {"api_key": None, "word": "a"}


def test_it_is_off_by_default(ask: Ask, secret: str, settings: Any) -> None:
    settings.ENDPOINTS_API_KEY_IN_ADDRESS = False
    assert ask(f"api_key={secret}")[0] == 401
    assert ask(f"api_key={secret}", path="/api/logs", method="POST", body=b"[]")[0] == 401


def test_a_header_wins_even_with_an_invalid_token(ask: Ask, secret: str) -> None:
    assert ask(f"api_key={secret}", x_api_key="lqe_0")[0] == 401
    assert ask(f"api_key={secret}", authorization="Bearer lqe_0")[0] == 401
    assert echoed(ask("api_key=lqe_0", x_api_key=secret))["api_key"] is None
    assert echoed(ask("api_key=lqe_0", authorization=f"Bearer {secret}"))["api_key"] is None


def test_what_is_no_token_in_a_header_leaves_the_address_its_say(ask: Ask, secret: str) -> None:
    assert ask(f"api_key={secret}", authorization="Basic YTpi")[0] == 200
    assert ask(f"api_key={secret}", x_api_key=" ")[0] == 200


@pytest.mark.parametrize(
    "query", ["api_key=", "api_key", "api_key={0}&api_key=lqe_0", "API_KEY={0}", "xapi_key={0}", ""]
)
def test_nothing_two_or_another_name_is_none(ask: Ask, secret: str, query: str) -> None:
    assert ask(query.format(secret))[0] == 401


def test_the_same_token_twice_is_one(ask: Ask, secret: str) -> None:
    assert ask(f"api_key={secret}&api_key={secret}&api_key=")[0] == 200


def test_in_a_body_it_is_an_argument_like_any_other(ask: Ask, secret: str) -> None:
    body = json.dumps({"api_key": "of the body"}).encode()
    assert ask("", method="POST", body=body)[0] == 401
    assert echoed(ask(f"api_key={secret}", method="POST", body=body))["api_key"] == "of the body"


def test_it_is_no_part_of_a_cache_key(ask: Ask, secret: str) -> None:
    other = issue_access_token(name="other").secret
    states = [
        ask("word=cached", x_api_key=secret)[1]["X-Cache"],
        ask(f"api_key={secret}&word=cached")[1]["X-Cache"],
        ask(f"word=cached&api_key={other}")[1]["X-Cache"],
    ]
    assert states == ["miss", "hit", "hit"]


def test_rows_are_loaded_with_it(ask: Ask, log_database: Any) -> None:
    shipper = issue_access_token(name="shipper", may_load=True, no_endpoints=True).secret
    body = json.dumps([row(1), row(2)]).encode()
    status, _, answer = ask(f"source=edge_logs&api_key={shipper}", path="/api/logs", method="POST", body=body)
    assert (status, json.loads(answer)["result"][0]["loaded"]) == (200, 2)


def test_no_log_line_and_no_answer_has_it(
    ask: Ask, secret: str, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    query = f"api_key={secret}&word=a"
    answers = [
        ask(query),
        ask(query, method="POST"),
        ask(query, method="PUT"),
        ask(query, path="/api/nothing"),
        ask(query, path="/nothing"),
        ask(query, path="/api/openapi.json"),
        ask(query, path="/metrics"),
        ask(f"{query}&word=%ff"),
        ask(f"{query}&sql=select+1"),
        ask(query, host="elsewhere.example.org"),
        ask(query, cookie="\\" * 200),
        ask(query, path="/api/logs", method="POST", body=b"{"),
    ]
    monkeypatch.setattr("endpoints.api.query.run_endpoint", _fail)
    answers += [ask(query), ask(query, method="POST")]
    assert answers[-1][0] == InternalError.status
    hidden = secret.split("_", 2)[2]  # may contain more of them
    for answer in answers:
        assert hidden not in repr(answer)
    written = capfd.readouterr()
    assert "request_finished" in written.err
    assert hidden not in written.err + written.out


def test_over_plain_http_it_is_refused_where_https_is_demanded(request: Any, secret: str, settings: Any) -> None:
    settings.SECURE_SSL_REDIRECT = True  # which Django reads when it is made
    status, headers, body = request.getfixturevalue("ask")(f"api_key={secret}&word=a")
    assert (status, json.loads(body)["error"]["code"]) == (403, "https_required")
    assert secret not in repr((headers, body))


def test_nothing_of_the_environment_has_it_but_the_header() -> None:
    environ = {"QUERY_STRING": "a=1&api_key=lqe_1&b", "RAW_URI": "/x?api_key=lqe_1", "REQUEST_URI": "/x?api_key=lqe_1"}
    take_token_from_address(environ)
    assert environ == {"QUERY_STRING": "a=1&b", "HTTP_X_API_KEY": "lqe_1"}


@pytest.mark.parametrize("query", ["", "a=1", "a=1&&b=%26api_key=x", "a=api_key", "a=1;api_key=x"])
def test_another_query_string_stays_as_it_is(query: str) -> None:
    environ = {"QUERY_STRING": query}
    take_token_from_address(environ)
    assert environ == {"QUERY_STRING": query}


def test_the_document_has_it_only_where_it_is_on(ask: Ask, secret: str, settings: Any) -> None:
    schemes = json.loads(ask(f"api_key={secret}", path="/api/openapi.json")[2])["components"]["securitySchemes"]
    assert schemes["address"] == {"type": "apiKey", "in": "query", "name": "api_key"}
    settings.ENDPOINTS_API_KEY_IN_ADDRESS = False
    document = json.loads(ask("", path="/api/openapi.json", x_api_key=secret)[2])
    assert "address" not in document["components"]["securitySchemes"]


def _fail(*_: Any, **__: Any) -> None:
    raise RuntimeError("a bug")
