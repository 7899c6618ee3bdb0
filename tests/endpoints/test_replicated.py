"""The fixture `replicated`: the suite's log database has a standby, which a test may kill, stop, hold back, promote."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from django.conf import settings
from django.db import connections

from tests.live.replicated import Replicated, value


@pytest.fixture
def written(replicated: Replicated) -> Iterator[psycopg.Connection[Any]]:
    """A connection to the primary's log database with a table that the standby shows too."""
    with psycopg.connect(replicated.primary_url, dbname=_log_database(), autocommit=True) as primary:
        primary.execute("CREATE TABLE public.written AS SELECT 1 AS n")
        replicated.caught_up()
        yield primary
        primary.execute("DROP TABLE public.written")


def _log_database() -> str:
    return str(connections["logs"].settings_dict["NAME"])


def _rows_of_standby(replicated: Replicated) -> object:
    with psycopg.connect(replicated.standby_url, dbname=_log_database()) as standby:
        return standby.execute("SELECT count(*) FROM public.written").fetchone()


def _gate_reads_standby() -> bool:
    # Not pg_is_in_recovery(): in a hardened log database the gate may not call it.
    with psycopg.connect(**settings.LOGS_GATE) as gate:
        return gate.info.parameter_status("in_hot_standby") == "on"


def test_gate_reads_the_standby_in_the_log_database_of_the_suite(replicated: Replicated) -> None:
    assert settings.LOGS_GATE["dbname"] == _log_database()
    assert _gate_reads_standby()
    version = "SELECT current_setting('server_version_num')::int / 10000"
    assert value(replicated.standby_url, version) == value(replicated.primary_url, version)


def test_rows_reach_the_standby(replicated: Replicated, written: psycopg.Connection[Any]) -> None:
    written.execute("INSERT INTO public.written VALUES (2)")
    replicated.caught_up()
    assert _rows_of_standby(replicated) == (2,)


def test_a_killed_standby_comes_back_with_what_it_has_missed(
    replicated: Replicated, written: psycopg.Connection[Any]
) -> None:
    with replicated.standby_killed():
        assert not _gate_reads_standby()
        written.execute("INSERT INTO public.written VALUES (2)")
    replicated.caught_up()
    assert _gate_reads_standby()
    assert _rows_of_standby(replicated) == (2,)


def test_a_frozen_standby_does_not_answer(replicated: Replicated) -> None:
    with replicated.standby_frozen(), pytest.raises(psycopg.errors.ConnectionTimeout):
        psycopg.connect(replicated.standby_url, connect_timeout=2)
    assert _gate_reads_standby()


def test_paused_replay_shows_nothing_new(replicated: Replicated, written: psycopg.Connection[Any]) -> None:
    with replicated.replay_paused():
        written.execute("INSERT INTO public.written VALUES (2)")
        assert _rows_of_standby(replicated) == (1,)
    replicated.caught_up()
    assert _rows_of_standby(replicated) == (2,)


def test_a_promoted_standby_goes_its_own_way_until_it_is_started_anew(
    replicated: Replicated, written: psycopg.Connection[Any]
) -> None:
    replicated.promote_standby()
    assert not _gate_reads_standby()
    with psycopg.connect(replicated.standby_url, dbname=_log_database(), autocommit=True) as promoted:
        promoted.execute("INSERT INTO public.written VALUES (2), (3)")
    assert _rows_of_standby(replicated) == (3,)
    replicated.start_standby()
    assert _rows_of_standby(replicated) == (1,)
    assert _gate_reads_standby()
