"""Access tokens: kept as hashes only, limited to what they were issued for, noted as used once a minute."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta

import pytest
from django.core.exceptions import ValidationError
from django.db import connection
from django.test.utils import CaptureQueriesContext

from endpoints.access import secrets as access_tokens
from endpoints.access.access_tokens import (
    authenticate_access_token,
    endpoints_out_of_reach,
    issue_access_token,
    revoke_access_tokens,
)
from endpoints.calling.calls import run_endpoint, visible_endpoints
from endpoints.calling.query_requests import Call
from endpoints.defining.saving import save_endpoint
from endpoints.errors import ArgumentNotAllowed, EndpointNotFound, NotAuthenticated
from endpoints.models import AccessToken, Endpoint
from endpoints.sql.parameters import DeclaredParameter, ParameterType, RawValue
from tests.conftest import ApiClient

pytestmark = pytest.mark.django_db
NOON = datetime(2025, 6, 2, 12, tzinfo=UTC)


@pytest.fixture
def typed(db: None) -> Endpoint:
    """An endpoint with one parameter of each of several types, each returned as it was bound."""
    types = {
        "project": ParameterType.TEXT,
        "since": ParameterType.TIMESTAMP,
        "level": ParameterType.INTEGER,
        "share": ParameterType.NUMBER,
        "id": ParameterType.UUID,
        "flag": ParameterType.BOOLEAN,
        "tags": ParameterType.TEXT_LIST,
    }
    sql = "SELECT " + ", ".join(f"@{name} AS {name}" for name in types)
    parameters = [DeclaredParameter(name, type=type_) for name, type_ in types.items()]
    return save_endpoint(Endpoint(name="test.typed", sql=sql), parameters)


def stored_text() -> str:
    """Return everything that Django's database holds, as one text."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public'")
        tables = [name for (name,) in cursor.fetchall()]
        return "".join(str(cursor.execute(f'SELECT * FROM "{name}"').fetchall()) for name in tables)


def secret_part(secret: str) -> str:
    return secret.split("_", 2)[2]


@contextmanager
def writes() -> Iterator[list[str]]:
    """Collect the statements that write to Django's database."""
    collected: list[str] = []
    with CaptureQueriesContext(connection) as queries:
        yield collected
    collected += [query["sql"] for query in queries if query["sql"].startswith(("UPDATE", "INSERT", "DELETE"))]


def test_a_secret_is_nowhere_in_the_database(api: ApiClient) -> None:
    issued = issue_access_token(name="kept as a hash", endpoint_names=["logs.all"], bound_arguments={"project": "a"})
    authenticate_access_token(issued.secret)
    issued.access_token.name = "renamed"
    issued.access_token.save()
    revoke_access_tokens(AccessToken.objects.filter(pk=issued.access_token.pk))
    stored = stored_text()
    assert issued.access_token.prefix in stored
    assert access_tokens.hash_secret(issued.secret) in stored
    assert issued.secret not in stored
    assert secret_part(issued.secret) not in stored


def test_the_history_of_an_access_token_holds_no_hash() -> None:
    issued = issue_access_token(name="with history")
    revoke_access_tokens(AccessToken.objects.all())
    fields = {field.name for field in issued.access_token.history.model._meta.get_fields()}
    assert {"prefix", "revoked_at"} <= fields
    assert not {"secret_hash", "last_used_at"} & fields
    assert issued.access_token.history.count() == 2


@pytest.mark.parametrize("header", ["X-API-KEY", "Authorization"])
def test_a_secret_is_never_logged(
    header: str, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    secret = issue_access_token(name="reader of logs", bound_arguments={"project": "acme"}).secret
    unknown = access_tokens.new_secret()[1]
    with caplog.at_level(logging.DEBUG):
        for sent in (secret, unknown, secret + "x"):
            value = f"Bearer {sent}" if header == "Authorization" else sent
            client = ApiClient("")
            for argument in ("acme", "globex", "\0"):
                client.query("logs.all", {"project": argument}, **{header.replace("-", "_"): value})
    logged = " ".join(f"{record.msg} {record.args} {record.exc_text}" for record in caplog.records)
    logged += "".join(capfd.readouterr())
    assert "reader of logs" in logged
    for sent in (secret, unknown):
        assert sent not in logged
        assert secret_part(sent) not in logged


def test_the_last_use_is_written_at_most_once_a_minute() -> None:
    issued = issue_access_token(name="busy")
    moments = [NOON + timedelta(seconds=seconds) for seconds in (0, 0, 1, 30, 59.999, 60, 61, 119.999, 120, 500)]
    with writes() as written:
        for moment in moments:
            authenticate_access_token(issued.secret, now=moment)
    assert len(written) == 4
    issued.access_token.refresh_from_db()
    assert issued.access_token.last_used_at == moments[-1]


@pytest.mark.parametrize("known", [True, False])
def test_an_unknown_prefix_takes_the_same_way_as_a_wrong_secret(known: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    secret = issue_access_token(name="known").secret if known else access_tokens.new_secret()[1]
    compared: list[str] = []
    compare = access_tokens.hmac.compare_digest

    def recording(left: str, right: str) -> bool:
        compared.append(right)
        return compare(left, right)

    monkeypatch.setattr(access_tokens.hmac, "compare_digest", recording)
    wrong = secret[:-1] + ("A" if secret[-1] != "A" else "B")
    with pytest.raises(NotAuthenticated), writes() as written:
        authenticate_access_token(wrong)
    assert len(compared) == 1
    assert written == []


def test_the_empty_secret_stands_for_nobody() -> None:
    """Its hash is the one that stands in for an unknown prefix."""
    with pytest.raises(NotAuthenticated):
        authenticate_access_token("")


@pytest.mark.parametrize(("seconds_left", "accepted"), [(-1, False), (0, False), (0.001, True), (None, True)], ids=str)
def test_an_access_token_ends_at_its_expiry(seconds_left: float | None, accepted: bool) -> None:
    expires_at = None if seconds_left is None else NOON + timedelta(seconds=seconds_left)
    secret = issue_access_token(name="ends").secret
    AccessToken.objects.update(expires_at=expires_at)
    if accepted:
        assert authenticate_access_token(secret, now=NOON).name == "ends"
    else:
        with pytest.raises(NotAuthenticated):
            authenticate_access_token(secret, now=NOON)


def test_a_revoked_access_token_is_refused_at_once_and_revoked_once() -> None:
    issued = issue_access_token(name="revoked")
    tokens = AccessToken.objects.filter(pk=issued.access_token.pk)
    assert revoke_access_tokens(tokens) == 1
    first = tokens.get().revoked_at
    assert revoke_access_tokens(tokens) == 0
    assert tokens.get().revoked_at == first
    with pytest.raises(NotAuthenticated):
        authenticate_access_token(issued.secret)


def test_an_access_token_calls_the_endpoints_it_is_limited_to_and_no_other(typed: Endpoint) -> None:
    caller = authenticate_access_token(issue_access_token(name="limited", endpoint_names=["test.typed"]).secret)
    assert [endpoint.name for endpoint in visible_endpoints(caller)] == ["test.typed"]
    for reference in ("test.typed", str(typed.pk)):
        assert run_endpoint(reference, call=Call(), caller=caller).outcome.row_count == 1
    other = Endpoint.objects.get(name="usage.api-counts")
    for reference in ("usage.api-counts", str(other.pk)):
        with pytest.raises(EndpointNotFound):
            run_endpoint(reference, call=Call(), caller=caller)


def test_limited_to_endpoints_that_were_deleted_it_calls_nothing(typed: Endpoint) -> None:
    secret = issue_access_token(name="left alone", endpoint_names=["test.typed"]).secret
    typed.delete()
    caller = authenticate_access_token(secret)
    assert caller.endpoint_ids == frozenset()
    assert visible_endpoints(caller) == []
    with pytest.raises(EndpointNotFound):
        run_endpoint("logs.all", call=Call({"project": "acme"}), caller=caller)


def test_without_endpoint_names_it_calls_every_endpoint_also_later_ones(typed: Endpoint) -> None:
    caller = authenticate_access_token(issue_access_token(name="everything").secret)
    save_endpoint(Endpoint(name="made.later", sql="SELECT 1 AS a"), [])
    assert {"logs.all", "test.typed", "made.later"} <= {endpoint.name for endpoint in visible_endpoints(caller)}


UUID = "123e4567-e89b-12d3-a456-426614174000"
SPELLINGS: list[tuple[str, str, RawValue]] = [
    ("project", "acme", "acme"),
    ("since", "2025-06-02T10:00:00+02:00", "2025-06-02T08:00:00Z"),
    ("since", "2025-06-02", "2025-06-02T00:00:00.000000"),
    ("level", "5", "+05"),
    ("level", "5", 5),
    ("share", "1.50", "1.5e0"),
    ("id", UUID, UUID.upper().replace("-", "")),
    ("flag", "true", "ON"),
    ("flag", "true", True),
    ("tags", "a", ["a"]),
]
OTHERS: list[tuple[str, str, RawValue]] = [
    ("project", "acme", "ACME"),
    ("project", "acme", "acme "),
    ("project", "5", "05"),
    ("since", "2025-06-02T10:00:00Z", "2025-06-02T10:00:00+02:00"),
    ("level", "5", 6),
    ("share", "1.5", "1.500001"),
    ("id", UUID, UUID.replace("1", "2")),
    ("flag", "true", "off"),
    ("tags", "alpha", ["alpha", "beta"]),
]


def called_with(bound: dict[str, str], arguments: dict[str, RawValue]) -> bytes:
    caller = authenticate_access_token(issue_access_token(name="bound", bound_arguments=bound).secret)
    return run_endpoint("test.typed", call=Call(arguments), caller=caller).outcome.body


@pytest.mark.parametrize("absent", [{}, {"project": ""}, {"project": None}, {"project": [""]}], ids=str)
def test_a_bound_argument_fills_in_for_an_absent_one(typed: Endpoint, absent: dict[str, RawValue]) -> None:
    assert b'"project":"acme"' in called_with({"project": "acme"}, absent)


@pytest.mark.parametrize(("name", "bound", "sent"), SPELLINGS)
def test_a_bound_argument_may_be_sent_in_another_spelling(
    typed: Endpoint, name: str, bound: str, sent: RawValue
) -> None:
    assert called_with({name: bound}, {name: sent}) == called_with({name: bound}, {})


@pytest.mark.parametrize(("name", "bound", "sent"), OTHERS)
def test_another_value_of_a_bound_argument_is_refused(typed: Endpoint, name: str, bound: str, sent: RawValue) -> None:
    with pytest.raises(ArgumentNotAllowed) as refusal:
        called_with({name: bound}, {name: sent})
    assert refusal.value.details[0]["name"] == name
    assert bound not in str(refusal.value.details)


def test_an_endpoint_without_the_bound_parameter_is_out_of_reach(typed: Endpoint) -> None:
    """There the bond would not hold: everybody's rows would be seen."""
    issued = issue_access_token(
        name="bound", endpoint_names=["usage.api-counts", "test.typed"], bound_arguments={"level": "5", "id": UUID}
    )
    caller = authenticate_access_token(issued.secret)
    assert [endpoint.name for endpoint in visible_endpoints(caller)] == ["test.typed"]
    with pytest.raises(EndpointNotFound):
        run_endpoint("usage.api-counts", call=Call({"interval": "daily", "project": "x"}), caller=caller)
    assert endpoints_out_of_reach(issued.access_token) == [("usage.api-counts", "id"), ("usage.api-counts", "level")]


@pytest.mark.parametrize(
    ("fields", "fault"),
    [
        ({"name": ""}, "name"),
        ({"name": "x" * 101}, "name"),
        ({"name": "x", "endpoint_names": ["logs.all", "no.such", "nor.this"]}, "endpoints"),
        ({"name": "x", "bound_arguments": {"project": ""}}, "bound_arguments"),
        ({"name": "x", "bound_arguments": {"no name": "a"}}, "__all__"),
    ],
)
def test_a_refused_access_token_is_not_saved(fields: dict[str, object], fault: str) -> None:
    with pytest.raises(ValidationError) as refusal:
        issue_access_token(**fields)  # type: ignore[arg-type]
    assert list(refusal.value.message_dict) == [fault]
    assert not AccessToken.objects.exists()


def test_every_unknown_endpoint_is_named() -> None:
    with pytest.raises(ValidationError, match=r"no endpoint named no\.such, nor\.this"):
        issue_access_token(name="x", endpoint_names=["nor.this", "logs.all", "no.such"])


def test_the_caller_names_the_access_token_by_its_public_prefix() -> None:
    issued = issue_access_token(name="named")
    caller = authenticate_access_token(issued.secret)
    assert (caller.name, caller.prefix) == ("named", issued.access_token.prefix)
    assert str(issued.access_token) == f"named ({caller.prefix}…)"


def test_a_bound_value_that_no_longer_fits_the_parameter_allows_no_value() -> None:
    endpoint = save_endpoint(Endpoint(name="test.retyped", sql="SELECT @level AS level"), [DeclaredParameter("level")])
    secret = issue_access_token(name="bound to a word", bound_arguments={"level": "high"}).secret
    save_endpoint(endpoint, [DeclaredParameter("level", type=ParameterType.INTEGER)])
    caller = authenticate_access_token(secret)
    with pytest.raises(ArgumentNotAllowed):
        run_endpoint("test.retyped", call=Call({"level": "5"}), caller=caller)
