from __future__ import annotations

from typing import Any
from uuid import UUID, uuid4

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from endpoints.cache.keys import QueryRequest, result_key
from endpoints.results.outcomes import BoundValue, Page, ResultFormat

# Separators, quotes, what JSON escapes, lone surrogates: whatever could make two requests read alike.
TEXTS = st.text(alphabet=st.sampled_from(list('ab:,"[]{}\\\n\0é😀\ud83d\ude00nul')), max_size=6)
VALUES: st.SearchStrategy[BoundValue] = st.none() | TEXTS | st.lists(TEXTS, max_size=3)
REQUESTS = st.builds(
    QueryRequest,
    arguments=st.dictionaries(TEXTS, VALUES, max_size=4),
    sandbox_language=st.sampled_from(["", "sql", "lql"]),
    sandbox_text=TEXTS,
    redact=st.booleans(),
    format=st.sampled_from(ResultFormat),
    page=st.none() | st.builds(Page, st.integers(1, 3), st.sampled_from(["", "a", "b"])),
)
ENDPOINTS = st.sampled_from([uuid4().hex, uuid4().hex])
VERSIONS = st.sampled_from([1, 2, 11, 12])
PLAIN = {"sandbox_language": "", "sandbox_text": "", "redact": False, "format": ResultFormat.JSON}
ENDPOINT = uuid4().hex


def request(arguments: dict[str, BoundValue], **changes: Any) -> QueryRequest:
    return QueryRequest(arguments=arguments, **{**PLAIN, **changes})


@settings(max_examples=300, deadline=None)
@given(ENDPOINTS, VERSIONS, REQUESTS, ENDPOINTS, VERSIONS, REQUESTS)
def test_results_share_a_digest_exactly_when_they_are_the_same(
    endpoint: str, version: int, one: QueryRequest, other_endpoint: str, other_version: int, other: QueryRequest
) -> None:
    digest = result_key(endpoint, version, one).digest
    other_digest = result_key(other_endpoint, other_version, other).digest
    assert (digest == other_digest) == ((endpoint, version, one) == (other_endpoint, other_version, other))


@settings(max_examples=200, deadline=None)
@given(REQUESTS, st.randoms())
def test_order_of_arguments_does_not_matter(one: QueryRequest, random: Any) -> None:
    arguments = list(one.arguments.items())
    random.shuffle(arguments)
    other = request(
        dict(arguments),
        sandbox_language=one.sandbox_language,
        sandbox_text=one.sandbox_text,
        redact=one.redact,
        format=one.format,
        page=one.page,
    )
    assert result_key(ENDPOINT, 1, one) == result_key(ENDPOINT, 1, other)


@settings(max_examples=200, deadline=None)
@given(REQUESTS)
def test_request_comes_back_from_its_text(one: QueryRequest) -> None:
    assert QueryRequest.from_json(one.canonical) == one


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"a": None},
        {"a": ""},
        {"a": []},
        {"a": [""]},
        {"a": "x"},
        {"a": ["x"]},
        {"a": '["x"]'},
        {"a": "null"},
        {"a": ["x", "y"]},
        {"a": ["x,y"]},
        {"a": "x", "b": "y"},
        {"a": 'x","b":"y'},
        {"b": "x"},
        {"a": "\ud83d\ude00"},
        {"a": "😀"},
    ],
)
def test_look_alikes_have_digests_of_their_own(arguments: dict[str, BoundValue]) -> None:
    others: list[dict[str, BoundValue]] = [
        {"a": None}, {"a": ""}, {"a": []}, {"a": [""]}, {"a": "x"}, {"a": ["x"]}, {"a": '["x"]'}, {"a": "null"},
        {"a": ["x", "y"]}, {"a": ["x,y"]}, {"a": "x", "b": "y"}, {"a": 'x","b":"y'}, {"b": "x"},
        {"a": "\ud83d\ude00"}, {"a": "😀"}, {},
    ]  # fmt: skip
    digest = result_key(ENDPOINT, 1, request(arguments)).digest
    alike = [other for other in others if result_key(ENDPOINT, 1, request(other)).digest == digest]
    assert alike == [arguments]


@pytest.mark.parametrize(
    "changes",
    [
        {"sandbox_language": "sql", "sandbox_text": "select 1"},
        {"sandbox_language": "lql", "sandbox_text": "select 1"},
        {"redact": True},
        {"format": ResultFormat.CSV},
        {"format": ResultFormat.NDJSON},
    ],
)
def test_everything_that_changes_the_bytes_changes_the_digest(changes: dict[str, Any]) -> None:
    assert result_key(ENDPOINT, 1, request({}, **changes)) != result_key(ENDPOINT, 1, request({}))


def test_names_in_redis_are_one_per_result_and_purpose() -> None:
    key = result_key(ENDPOINT, 7, request({}))
    assert key.entry == f"lqe:entry:{ENDPOINT}:7:{key.digest}"
    names = [key.entry, key.lease, key.request, key.failures, key.backoff]
    assert len(set(names)) == len(names)


def test_endpoint_is_the_same_however_its_id_is_written() -> None:
    assert result_key(str(UUID(ENDPOINT)).upper(), 1, request({})) == result_key(ENDPOINT, 1, request({}))


def test_refuses_an_endpoint_id_that_could_reach_into_other_names() -> None:
    with pytest.raises(ValueError, match="UUID"):
        result_key("*", 1, request({}))


@pytest.mark.parametrize("text", [b"", b"{}", b"[]", b"[[],1]", b'[[],"","",false,"image/png"]', b"nonsense", b"\xff"])
def test_refuses_text_that_is_no_request(text: bytes) -> None:
    with pytest.raises(ValueError, match="not a request"):
        QueryRequest.from_json(text)
