"""Answers in gzip and zstd: who gets them, entity tags of each coding, and that nobody gets another one's bytes."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from typing import Any

import pytest
import zstandard
from django_redis import get_redis_connection

from endpoints.access.access_tokens import issue_access_token
from endpoints.api import content_codings
from endpoints.api.content_codings import KeptBodies, is_tag_of, preferred_coding, tag_in
from endpoints.cache import single_flight
from endpoints.cache.keys import entry_prefix
from endpoints.defining.saving import save_endpoint
from endpoints.models import Endpoint
from endpoints.results.compression import COMPRESS_FROM_BYTES
from endpoints.sql.parameters import DeclaredParameter, ParameterType
from tests.conftest import ApiClient
from tests.endpoints.api.conftest import HOST, Ask

pytestmark = pytest.mark.django_db
NAME, PATH = "large", "/api/endpoints/query/large"
LARGE = 500  # rows, which have about 20 kB


@pytest.fixture(autouse=True)
def endpoint(db: None) -> Endpoint:
    content_codings.KEPT.__init__()  # type: ignore[misc]  # what other tests have kept
    return save_large()


def save_large(**settings: Any) -> Endpoint:
    sql = "SELECT n, md5(n::text) AS word FROM generate_series(1, @rows) AS n"
    large = Endpoint.objects.filter(name=NAME).first() or Endpoint(name=NAME)
    for name, value in {"sql": sql, "max_rows": 5000, **settings}.items():
        setattr(large, name, value)
    return save_endpoint(large, [DeclaredParameter("rows", type=ParameterType.INTEGER)])


def expanded(answer: Any) -> bytes:
    """Return the body of an answer, whatever its coding."""
    match answer.headers.get("Content-Encoding"):
        case "gzip":
            return gzip.decompress(answer.content)
        case "zstd":
            return zstandard.ZstdDecompressor().decompress(answer.content)
        case None:
            return bytes(answer.content)
        case other:
            raise AssertionError(other)


# --- Negotiation ------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("sent", "expected"),
    [
        ("", ""),
        ("gzip", "gzip"),
        ("x-gzip", "gzip"),
        ("GZIP", "gzip"),
        ("zstd", "zstd"),
        ("gzip, deflate, br, zstd", "zstd"),
        ("gzip;q=1.0, zstd;q=0.5", "gzip"),
        ("gzip;q=0.5,zstd; q=0.5", "zstd"),
        ("gzip;q=0", ""),
        ("gzip;q=0, zstd;q=0.001", "zstd"),
        ("zstd;q=0, *", "gzip"),
        ("*", "gzip"),
        ("*;q=0", ""),
        ("*, gzip;q=0", ""),
        ("identity", ""),
        ("identity, gzip;q=0.5", ""),
        ("identity;q=0.5, gzip", "gzip"),
        ("identity;q=0", ""),
        ("deflate, br", ""),
        ("gzip;q=nonsense", "gzip"),
        ("gzip;level=9", "gzip"),
        (";;,,=,gzip", "gzip"),
        ("gzip\r\nX-Evil: 1", ""),
        ("gzip," * 5000, ""),
    ],
)
def test_the_preferred_coding(sent: str, expected: str) -> None:
    assert preferred_coding(sent) == expected


@pytest.mark.parametrize("name", ["gzip", "zstd"])
@pytest.mark.parametrize("accept", ["application/json", "text/csv", "application/x-ndjson"])
def test_a_large_answer_is_compressed_for_who_asks(api: ApiClient, name: str, accept: str) -> None:
    plain = api.query(NAME, {"rows": LARGE}, accept=accept)
    answer = api.query(NAME, {"rows": LARGE}, accept=accept, accept_encoding=name)
    assert answer["Content-Encoding"] == name
    assert int(answer["Content-Length"]) == len(answer.content) < len(plain.content) * 0.75
    assert expanded(answer) == plain.content
    assert answer["Content-Type"] == plain["Content-Type"]
    for each in (plain, answer):
        assert "Accept-Encoding" in each["Vary"]


def test_neither_small_ones_nor_parquet_nor_streams_nor_errors_are(api: ApiClient) -> None:
    sql = f"SELECT n FROM generate_series(1, {LARGE}) AS n"
    save_endpoint(Endpoint(name="streamed", sql=sql, stream_rows=9999), [])
    answers = [
        api.query(NAME, {"rows": 5}, accept_encoding="gzip"),
        api.query(NAME, {"rows": 1000}, accept="application/vnd.apache.parquet", accept_encoding="gzip"),
        api.query("streamed", accept="text/csv", accept_encoding="gzip"),
        api.query(NAME, {"rows": "x" * 20_000}, accept_encoding="gzip"),
    ]
    assert not [each for each in answers if "Content-Encoding" in each]
    assert len(answers[0].content) < COMPRESS_FROM_BYTES < len(answers[1].content)
    assert b"".join(answers[2])


def test_arrow_is(api: ApiClient) -> None:
    answer = api.query(NAME, {"rows": LARGE}, accept="application/vnd.apache.arrow.stream", accept_encoding="zstd")
    assert answer["Content-Encoding"] == "zstd"
    assert expanded(answer) == api.query(NAME, {"rows": LARGE}, accept="application/vnd.apache.arrow.stream").content


def test_head_has_the_headers_of_get(api: ApiClient) -> None:
    path = f"{PATH}?rows={LARGE}"
    get, head = (getattr(api, method)(path, headers={"Accept-Encoding": "gzip"}) for method in ("get", "head"))
    for header in ("Content-Encoding", "Content-Length", "ETag"):
        assert head[header] == get[header]
    assert head.content == b""


def test_the_setting_turns_it_off(api: ApiClient, settings: Any) -> None:
    settings.RESPONSE_COMPRESSION = False
    answer = api.query(NAME, {"rows": LARGE}, accept_encoding="gzip")
    assert "Content-Encoding" not in answer
    assert "Accept-Encoding" not in answer["Vary"]


def test_the_way_before_django_and_through_it_give_the_same(ask: Ask, api: ApiClient, secret: str) -> None:
    save_large(cache_seconds=60)
    for coding in ("gzip", "zstd", "identity"):
        status, headers, body = ask(f"rows={LARGE}", path=PATH, x_api_key=secret, accept_encoding=coding)
        theirs = api.query(NAME, {"rows": LARGE}, accept_encoding=coding, host=HOST)
        assert (status, body) == (200, theirs.content)
        for header in ("ETag", "Content-Length", "Content-Type", "X-Result-Rows"):
            assert headers[header] == theirs[header]
        assert headers.get("Content-Encoding") == theirs.headers.get("Content-Encoding")


# --- Entity tags ------------------------------------------------------------------------------------------------------
def test_each_coding_has_a_tag_of_its_own_and_every_one_is_known(api: ApiClient) -> None:
    codings = ("identity", "gzip", "zstd")
    tags = {each: api.query(NAME, {"rows": LARGE}, accept_encoding=each)["ETag"] for each in codings}
    assert len(set(tags.values())) == 3
    for tag in tags.values():
        for coding in codings:
            for sent in (tag, f"W/{tag}", f'"other", {tag}'):
                known = api.query(NAME, {"rows": LARGE}, accept_encoding=coding, if_none_match=sent)
                assert (known.status_code, known.content, known["ETag"]) == (304, b"", tag)
                assert "Content-Encoding" not in known
    assert api.query(NAME, {"rows": LARGE}, if_none_match="*").status_code == 304


@pytest.mark.parametrize("sent", ['"x-gzip"', '"{}-br"', '"{}-gzip-gzip"', '"{}gzip"', '"-gzip"', '"{}-GZIP"'])
def test_another_tag_is_not_known(api: ApiClient, sent: str) -> None:
    digest = api.query(NAME, {"rows": LARGE})["ETag"].strip('"')
    assert api.query(NAME, {"rows": LARGE}, if_none_match=sent.format(digest)).status_code == 200


def test_tags_of_other_results_are_told_apart() -> None:
    assert tag_in('"ab"', "gzip") == '"ab-gzip"'
    assert tag_in('"ab"', "") == '"ab"'
    assert is_tag_of('"ab-zstd"', '"ab"')
    assert not is_tag_of('"abc-zstd"', '"ab"')


# --- Kept bodies ------------------------------------------------------------------------------------------------------
def test_a_hit_compresses_nothing(api: ApiClient, monkeypatch: pytest.MonkeyPatch) -> None:
    save_large(cache_seconds=60)
    compressed: list[str] = []
    gzip_of, frame_of = content_codings.zlib.compressobj, single_flight.zstd_frame
    monkeypatch.setattr(
        content_codings.zlib, "compressobj", lambda *options: compressed.append("gzip") or gzip_of(*options)
    )
    for module in (content_codings, single_flight):
        monkeypatch.setattr(module, "zstd_frame", lambda body: compressed.append("zstd") or frame_of(body))
    asked = ("gzip", "gzip", "zstd", "identity", "zstd", "gzip")
    answers = [api.query(NAME, {"rows": LARGE}, accept_encoding=each) for each in asked]
    assert compressed == ["zstd", "gzip"], "the one for Redis, the other for the first who asked"
    assert len({expanded(each) for each in answers}) == 1
    assert [each["X-Cache"] for each in answers] == ["miss"] + ["hit"] * 5


def test_the_frame_in_redis_is_what_a_client_gets(api: ApiClient) -> None:
    save_large(cache_seconds=60)
    miss, hit = (api.query(NAME, {"rows": LARGE}, accept_encoding="zstd") for _ in range(2))
    (entry,) = (get_redis_connection("default").get(name) for name in entry_names())
    assert entry.endswith(hit.content)
    assert miss.content == hit.content
    assert (miss["X-Cache"], hit["X-Cache"], hit["Content-Encoding"]) == ("miss", "hit", "zstd")


def entry_names() -> list[bytes]:
    return list(get_redis_connection("default").scan_iter(f"{entry_prefix(Endpoint.objects.get(name=NAME).pk.hex)}*"))


def test_what_is_not_cached_is_not_kept(api: ApiClient) -> None:
    api.query(NAME, {"rows": LARGE}, accept_encoding="gzip")
    assert not content_codings.KEPT._kept


def test_a_new_result_is_compressed_anew(api: ApiClient) -> None:
    sql = "SELECT repeat(md5(clock_timestamp()::text), 500) AS now"
    save_endpoint(Endpoint(name="clock", sql=sql, cache_seconds=60), [])
    purger = ApiClient(issue_access_token(name="purger", may_purge=True).secret)
    first = api.query("clock", accept_encoding="gzip")
    assert purger.delete("/api/endpoints/cache/clock").status_code == 200
    second = api.query("clock", accept_encoding="gzip")
    assert second["ETag"] != first["ETag"]
    assert expanded(second) == api.query("clock").content != expanded(first)


def test_callers_get_what_is_theirs(insert_rows: Callable[..., None]) -> None:
    columns = "t.project, t.event_message"
    sql = f"SELECT {columns} FROM logs.edge_logs AS t WHERE t.project = @project"
    save_endpoint(
        Endpoint(name="cached", sql=sql, cache_seconds=60, tenant_parameter="project"),
        [DeclaredParameter("project", required=True)],
    )
    row = {"timestamp": "2026-11-23T00:00:00Z", "event_message": "from 192.0.2.7"}
    insert_rows("edge_logs", [{**row, "project": project} for project in ("acme", "globex") for _ in range(300)])
    for project, other in (("acme", b"globex"), ("globex", b"acme")):
        bound = ApiClient(issue_access_token(name=project, bound_arguments={"project": project}).secret)
        for _ in range(2):
            redacted = bound.query("cached", accept_encoding="gzip", svc_endpoint_redact_pii="true")
            assert redacted["Content-Encoding"] == "gzip"
            assert b"192.0.2.7" not in expanded(redacted)
            plain = bound.query("cached", accept_encoding="gzip")
            assert b"192.0.2.7" in expanded(plain)
            assert other not in expanded(plain) + expanded(redacted)
            assert redacted["ETag"] != plain["ETag"]
        assert bound.query("cached", {"project": other.decode()}, accept_encoding="gzip").status_code == 403


def test_kept_bodies_have_a_bound_and_the_longest_unused_goes_first() -> None:
    kept = KeptBodies(capacity_bytes=100)
    kept.keep("a", b"a" * 40)
    kept.keep("b", b"b" * 40)
    assert kept.get("a") == b"a" * 40
    kept.keep("c", b"c" * 40)
    assert (kept.get("a"), kept.get("b"), kept.get("c")) == (b"a" * 40, None, b"c" * 40)
    kept.keep("a", b"A" * 60)
    assert (kept.get("a"), kept.get("c")) == (b"A" * 60, b"c" * 40)
    kept.keep("too large", b"x" * 101)
    assert kept.get("too large") is None
    assert sum(map(len, kept._kept.values())) == kept._bytes == 100
