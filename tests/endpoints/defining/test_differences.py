"""Differences: both texts can be read back from them, whatever changed, and what did not change is folded."""

from __future__ import annotations

from time import monotonic

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from endpoints.defining.differences import Change, Fold, Line, Run, compare_lines, compare_words

words = st.lists(st.sampled_from(["select", "from", "a", "b", " ", " ", "\n", "@x", "<", "'é'", "10"]), max_size=30)
texts = words.map("".join) | st.text(max_size=30)


def side(runs: tuple[Run, ...], *, without: Change) -> str:
    return "".join(run.text for run in runs if run.change is not without)


@settings(max_examples=200, deadline=None)
@given(before=texts, after=texts)
def test_both_texts_are_in_the_runs(before: str, after: str) -> None:
    runs = compare_words(before, after)
    assert side(runs, without=Change.ADDED) == before
    assert side(runs, without=Change.REMOVED) == after
    assert all(run.text for run in runs)


@settings(max_examples=200, deadline=None)
@given(before=texts, after=texts)
def test_both_texts_are_in_the_lines(before: str, after: str) -> None:
    lines = compare_lines(before, after, context=1_000)
    assert all(isinstance(line, Line) for line in lines)
    if before.splitlines() == after.splitlines():
        assert lines == ()
        return
    for text, gone, number in ((before, Change.ADDED, "before"), (after, Change.REMOVED, "after")):
        own = [line for line in lines if isinstance(line, Line) and line.change is not gone]
        assert ["".join(run.text for run in line.runs) for line in own] == text.splitlines()
        assert [getattr(line, number) for line in own] == list(range(1, len(own) + 1))


@settings(max_examples=200, deadline=None)
@given(before=texts, after=texts, context=st.integers(0, 3))
def test_folds_and_lines_together_are_as_long_as_the_text(before: str, after: str, context: int) -> None:
    lines = compare_lines(before, after, context=context)
    if lines:
        shown = sum(one.lines if isinstance(one, Fold) else one.change is not Change.ADDED for one in lines)
        assert shown == len(before.splitlines())


def test_marks_the_words_that_changed() -> None:
    removed, added = compare_lines("where a < 5", "where a < 10")
    assert removed == Line(Change.REMOVED, 1, None, (Run(Change.EQUAL, "where a < "), Run(Change.REMOVED, "5")))
    assert added == Line(Change.ADDED, None, 1, (Run(Change.EQUAL, "where a < "), Run(Change.ADDED, "10")))


def test_folds_what_is_far_from_a_change() -> None:
    text = [f"line {n}" for n in range(1, 21)]
    lines = compare_lines("\n".join(text), "\n".join([*text[:9], "other", *text[10:]]), context=2)
    assert [one.lines if isinstance(one, Fold) else one.change.value for one in lines] == [
        7, "equal", "equal", "removed", "added", "equal", "equal", 8,
    ]  # fmt: skip


def test_does_not_fold_a_single_line() -> None:
    lines = compare_lines("a\nb\nc", "a\nb\nd", context=1)
    assert [one.change for one in lines if isinstance(one, Line)] == [
        Change.EQUAL, Change.EQUAL, Change.REMOVED, Change.ADDED,
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("before", "after", "changes"),
    [
        ("", "a", [Change.ADDED]),
        ("a", "", [Change.REMOVED]),
        ("a\n\nb", "a\nb", [Change.EQUAL, Change.REMOVED, Change.EQUAL]),
        ("a\r\nb", "a\nb", []),
    ],
)
def test_takes_lines_that_come_and_go(before: str, after: str, changes: list[Change]) -> None:
    assert [one.change for one in compare_lines(before, after) if isinstance(one, Line)] == changes


def test_large_texts_take_no_time() -> None:
    before = "\n".join(f"select {n} as a{n}, {n * 7} as b{n}" for n in range(2_000))
    after = "\n".join(f"select {n} as c{n}, {n * 3} as d{n}" for n in range(2_000))
    started = monotonic()
    assert len(compare_lines(before, after)) == 4_000
    assert monotonic() - started < 5
