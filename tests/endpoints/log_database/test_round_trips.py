"""The parts of psycopg that are not its documented interface, as `round_trips`, `describing` and `deadlines` use them.

pyproject.toml pins psycopg to its minor version; a newer one has to pass here first.
"""

from __future__ import annotations

import inspect
import tomllib
from importlib.metadata import version

import psycopg
import pytest
from packaging.requirements import Requirement
from psycopg import generators, pq
from psycopg.waiting import Ready, Wait

from config.deadlines import BoundedConnection
from tests.files import PROJECT

SENT_BY_HAND = (
    *("enter_pipeline_mode", "exit_pipeline_mode", "pipeline_sync", "set_chunked_rows_mode"),
    *("send_query", "send_query_params", "send_prepare", "send_query_prepared", "send_describe_prepared"),
    *("flush", "consume_input", "is_busy", "get_result", "encrypt_password"),
)


def test_psycopg_is_pinned_to_its_minor_version() -> None:
    major, minor = version("psycopg").split(".")[:2]
    needed = tomllib.loads((PROJECT / "pyproject.toml").read_text("utf-8"))["project"]["dependencies"]
    (pin,) = [one for one in map(Requirement, needed) if one.name == "psycopg"]
    assert pin.specifier.contains(f"{major}.{minor}.999")
    assert not pin.specifier.contains(f"{major}.{int(minor) + 1}.0")


@pytest.mark.parametrize("name", SENT_BY_HAND)
def test_a_connection_of_libpq_has_what_round_trips_send_by_hand(name: str) -> None:
    assert callable(getattr(pq.PGconn, name))


def test_connecting_is_a_generator_that_deadlines_can_watch() -> None:
    connect = inspect.getattr_static(psycopg.Connection, "_connect_gen")
    assert isinstance(connect, classmethod)
    assert inspect.isgeneratorfunction(connect.__func__)
    assert "_connect_gen" in inspect.getsource(psycopg.Connection.connect)
    assert "_connect_gen" in vars(BoundedConnection)


def test_waiting_takes_a_generator_first_and_may_be_interrupted_by_an_interval() -> None:
    generator, *others = list(inspect.signature(psycopg.Connection.wait).parameters.values())[1:]
    assert generator.name == "gen"
    assert others[0].name == "interval"
    assert all(each.default is not inspect.Parameter.empty for each in others)


def test_an_exchange_waits_for_these_and_is_told_these() -> None:
    assert Wait.R | Wait.W == Wait.RW
    assert Ready.NONE < Ready.R < Ready.W < Ready.RW
    assert inspect.signature(generators.execute).parameters.keys() == {"pgconn"}
