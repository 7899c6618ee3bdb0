"""Fuzzing of the LQL parser, short; `python -m tests.fuzz.lql` is the long form. And: its judge sees what it should."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from endpoints.lql import Rules, parse_lql
from tests.fuzz import lql as fuzzing

TEXTS = fuzzing.corpus()
FRAGMENTS = st.one_of(
    st.sampled_from(TEXTS),
    st.sampled_from([*fuzzing.PATHS, *fuzzing.SIGNS, *fuzzing.VALUES, *fuzzing.TIMES, *fuzzing.OTHERS]),
    st.sampled_from(["-", '"', "(", ")", "\\", "..", "{", "}", "@", "NULL", "T00:00:00", "count(", "*)", " "]),
    st.text(max_size=3),
)


def check(text: str) -> None:
    tally = fuzzing.Tally()
    fuzzing.examine(text, tally)
    assert tally.complaints == []


def test_drops_nothing_and_prints_what_reads_back() -> None:
    tally = fuzzing.run(queries=10_000, seed=20_261_121)
    assert tally.complaints == []
    assert tally.accepted > 2_000, "the generator writes too little that passes"


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=80))
def test_answers_any_text(text: str) -> None:
    check(text)


@settings(max_examples=300, deadline=None)
@given(st.lists(FRAGMENTS, max_size=10).map("".join))
def test_answers_joined_fragments(text: str) -> None:
    check(text)


@settings(max_examples=200, deadline=None)
@given(st.sampled_from(TEXTS), st.integers(0, 60), st.integers(0, 3), st.text(max_size=2))
def test_answers_edited_cases(text: str, at: int, cut: int, put: str) -> None:
    check(text[:at] + put + text[at + cut :])


@settings(max_examples=200, deadline=None)
@given(st.text(alphabet=st.characters(max_codepoint=0x9F), max_size=40))
def test_answers_control_characters(text: str) -> None:
    check(text)


# ── The judge ──


@pytest.mark.parametrize(
    ("text", "misread"),
    [
        ("a:1 b", "a:1"),
        ("a:1b", "a:1 b"),
        ("a:1 c:count(*)", "a:1"),
        ("-a:1", "a:1"),
        ("a -b", "-a b"),
        ('"x y"', "x y"),
        ("a:(x y)", "a:x y"),
        ("s:a s:b", "s:a"),
    ],
)
def test_the_judge_sees_a_misreading(text: str, misread: str) -> None:
    assert fuzzing.complaints(text, parse_lql(text)) == []
    assert fuzzing.complaints(text, parse_lql(misread))


def test_the_judge_sees_what_does_not_read_back(monkeypatch: pytest.MonkeyPatch) -> None:
    rules = parse_lql("a:1")
    monkeypatch.setattr(fuzzing, "print_lql", lambda _: 'a:"1"')
    assert fuzzing.complaints("a:1", rules)
    monkeypatch.setattr(fuzzing, "print_lql", lambda _: "a:/")
    assert fuzzing.complaints("a:1", rules)


def test_the_judge_sees_a_place_outside_the_text() -> None:
    detail = {"reason": "x", "line": 2, "column": 1}
    assert fuzzing.tells_well("a\nb", detail)
    assert not fuzzing.tells_well("a", detail)
    assert not fuzzing.tells_well("a\nb", detail | {"column": 3})
    assert not fuzzing.tells_well("a\nb", detail | {"expected": ["INVALID"]})


def test_the_judge_sees_an_unexpected_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(text: str) -> Rules:
        raise ValueError(text)

    monkeypatch.setattr(fuzzing, "parse_lql", fail)
    with pytest.raises(ValueError, match="a:1"):
        fuzzing.examine("a:1", fuzzing.Tally())
