"""The secret of an access token: its shape, its hash, and who may call what."""

from __future__ import annotations

import hashlib
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from endpoints.access.secrets import NO_HASH, Caller, hash_secret, matches, new_secret, prefix_of


def test_a_secret_tells_its_prefix_and_holds_256_random_bits() -> None:
    prefix, secret = new_secret()
    assert re.fullmatch(r"[0-9a-f]{12}", prefix)
    assert re.fullmatch(rf"lqe_{prefix}_[A-Za-z0-9_-]{{43}}", secret)
    assert prefix_of(secret) == prefix


def test_no_two_secrets_are_alike() -> None:
    made = [new_secret() for _ in range(1000)]
    assert len({prefix for prefix, _ in made}) == len({secret for _, secret in made}) == 1000


PREFIX = "0123456789ab"
SECRET = f"lqe_{PREFIX}_{'Ab3-_' * 8}xyz"


def test_the_secret_that_is_malformed_here_is_well_formed_without_its_flaw() -> None:
    assert prefix_of(SECRET) == PREFIX


MALFORMED = [
    "",
    " ",
    PREFIX,
    f"lqe_{PREFIX}",
    f"lqe_{PREFIX}_",
    SECRET[:-1],
    SECRET + "A",
    SECRET + "\n",
    " " + SECRET,
    SECRET.replace("lqe_", "LQE_"),
    SECRET.replace("lqe_", ""),
    SECRET.replace(PREFIX, PREFIX[:-1] + "g"),
    SECRET.replace(PREFIX, "A" * 12),
    SECRET[:-1] + "é",
    SECRET[:-1] + "\0",
    SECRET[:-1] + "\u0663",  # a digit, but not an ASCII one
    "x" * 100_000,
]


@pytest.mark.parametrize("text", MALFORMED, ids=lambda text: repr(text[-20:]))
def test_what_is_no_secret_has_no_prefix(text: str) -> None:
    assert prefix_of(text) is None


@settings(deadline=None)
@given(st.text())
def test_every_text_can_be_hashed_and_compared(text: str) -> None:
    assert matches(text, hash_secret(text))
    assert not matches(text + "x", hash_secret(text))


def test_only_the_secret_itself_matches_its_hash() -> None:
    assert hash_secret(SECRET) == hashlib.sha256(SECRET.encode()).hexdigest()
    assert SECRET not in hash_secret(SECRET)
    assert matches(SECRET, hash_secret(SECRET))
    assert not matches(SECRET.swapcase(), hash_secret(SECRET))
    assert not matches(SECRET, hash_secret(SECRET).upper())
    assert not matches(SECRET, "")
    assert not matches(SECRET, NO_HASH)


def test_a_caller_without_a_limit_may_call_everything_and_one_limited_to_nothing_nothing() -> None:
    assert Caller("all", "a").may_call("1")
    limited = Caller("one", "b", endpoint_ids=frozenset({"1"}))
    assert limited.may_call("1")
    assert not limited.may_call("2")
    assert not Caller("none", "c", endpoint_ids=frozenset()).may_call("1")
