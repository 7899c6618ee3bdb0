"""Prepared statements of a connection: found again under their key, the longest unused given up first."""

from __future__ import annotations

from endpoints.log_database.gate import KeptStatements, RepeatedStatements


def kept_names(statements: KeptStatements, *keys: str) -> list[bytes]:
    for key in keys:
        statements.keep(key, statements.new_name())
    return [name for key in keys if (name := statements.name_of(key))]


def test_a_kept_statement_has_its_own_name() -> None:
    statements = KeptStatements("kept", 3)
    assert kept_names(statements, "a", "b", "c") == [b"kept_0", b"kept_1", b"kept_2"]
    assert statements.name_of("d") is None
    assert statements.give_up() == []


def test_the_longest_unused_is_given_up_first() -> None:
    statements = KeptStatements("kept", 2)
    kept_names(statements, "a", "b")
    statements.name_of("a")
    kept_names(statements, "c")
    assert statements.give_up() == [b"kept_1"]
    assert statements.name_of("b") is None
    assert statements.name_of("a") == b"kept_0"


def test_what_comes_at_all_is_kept() -> None:
    assert KeptStatements("kept", 2).admits("a")


def test_of_repeated_statements_only_what_came_before_is_kept() -> None:
    statements = RepeatedStatements("repeated", 2)
    assert [statements.admits(key) for key in ("a", "b", "a", "c", "b")] == [False, False, True, False, True]


def test_texts_that_come_once_are_not_remembered_without_end() -> None:
    statements = RepeatedStatements("repeated", 2)
    assert not any(statements.admits(str(number)) for number in range(100_000))
    assert len(statements._came_once) <= 200
