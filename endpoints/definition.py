"""What an operator defines of an endpoint, as one frozen value, and the one list of its settings.

A setting is declared as a field of `Definition` and has a column in `endpoints.models`. Everything that goes through
all settings takes them from SETTINGS: the form and its page, drafts, endpoint files, history and restoration.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any, Final, Self, TypeVar

from endpoints.dialects import DIALECTS
from endpoints.lql.rules import ChartColumn
from endpoints.results.outcomes import Column, SandboxDialect, TimestampForm
from endpoints.sql.parameters import DeclaredParameter

MAX_ROWS_LIMIT: Final = 100_000  # a result is held in memory once as rows and once as bytes
MAX_STATEMENT_TIMEOUT_SECONDS: Final = 300
MAX_STREAM_ROWS: Final = 1_000_000_000
_DAY: Final = 86_400

# The sections of the page; what is before the query has no heading.
BEFORE_QUERY: Final = ""
LIMITS: Final = "Rows and limits"
CACHE: Final = "Cache"
CONSUMERS: Final = "What consumers may do"

T = TypeVar("T", str, int, bool)


@dataclass(frozen=True, slots=True)
class Setting:
    """What a setting may be, and where it is shown.

    The history calls it by its `label`, the form by its `title`; both are its name where nothing else is said. On the
    page it is in its `section`, in one row with the setting before it where it stands `beside` that. What has no part
    in the result of a call is not `in_drafts`: it is not sent with them.
    """

    default: str | int | bool
    help: str
    section: str
    beside: bool = False
    name: str = ""
    label: str = ""
    title: str | None = None
    minimum: int | None = None
    maximum: int | None = None
    choices: tuple[tuple[str, str], ...] = ()
    in_drafts: bool = True

    @property
    def type(self) -> type:
        """Return str, int or bool."""
        return type(self.default)

    def has_in_range(self, value: Any) -> bool:
        """Tell whether a number is neither below the minimum nor above the maximum."""
        return (self.minimum is None or value >= self.minimum) and (self.maximum is None or value <= self.maximum)


def _setting(default: T, help: str, section: str, **shown: Any) -> T:
    return field(default=default, metadata={"setting": Setting(default, help, section, **shown)})


@dataclass(frozen=True, slots=True, kw_only=True)
class Definition:
    """An endpoint's SQL, settings and parameters; a setting that nobody gave has the value of a new endpoint."""

    sql: str = ""
    parameters: tuple[DeclaredParameter, ...] = ()
    name: str = _setting(
        "",
        "The end of its address, /api/endpoints/query/name. Letters, digits, dots, dashes, underscores.",
        BEFORE_QUERY,
    )
    description: str = _setting(
        "", "What it returns, for the people who call it.", BEFORE_QUERY, beside=True, in_drafts=False
    )
    tenant_parameter: str = _setting(
        "",
        "A required text parameter: PostgreSQL then shows the query only rows of that project. "
        "Blank = the query sees the rows of every project.",
        LIMITS,
    )
    max_rows: int = _setting(
        1000, "Extra rows are dropped and the response says so.", LIMITS, minimum=1, maximum=MAX_ROWS_LIMIT
    )
    statement_timeout_seconds: int = _setting(
        15,
        "PostgreSQL cancels the query after this time.",
        LIMITS,
        beside=True,
        label="statement timeout",
        title="statement timeout (seconds)",
        minimum=1,
        maximum=MAX_STATEMENT_TIMEOUT_SECONDS,
    )
    stream_rows: int = _setting(
        0,
        "CSV and NDJSON are sent while rows arrive, up to so many, in place of max rows and past the cache; "
        "0 = no streams.",
        LIMITS,
        label="streams",
        title="stream up to (rows)",
        minimum=0,
        maximum=MAX_STREAM_ROWS,
        in_drafts=False,
    )
    planner_settings: str = _setting(
        "",
        "How PostgreSQL plans the stored query: plan_cache_mode = force_generic_plan plans it once for all "
        "arguments, enable_sort = off prefers an index that is in order. Blank = PostgreSQL decides.",
        LIMITS,
    )
    page_order: str = _setting(
        "",
        "The order of pages, as in timestamp desc, id desc: callers may then send page_size and go on after the last "
        "row. Together the columns must be different in every row. Blank = no pages.",
        LIMITS,
    )
    cache_seconds: int = _setting(
        0,
        "How long a result may come from the cache; 0 = caching disabled.",
        CACHE,
        label="caching",
        title="caching (seconds)",
        maximum=_DAY,
        in_drafts=False,
    )
    warm_every_seconds: int = _setting(
        0,
        "How often requested results are renewed ahead of time; 0 = off.",
        CACHE,
        beside=True,
        label="cache warming",
        title="cache warming every (seconds)",
        maximum=_DAY,
        in_drafts=False,
    )
    sandboxing: bool = _setting(
        False,
        "Consumers may send their own SELECT. It can read the CTEs of this query as tables, and nothing else. "
        "The query must then begin with WITH; consumers can read every CTE.",
        CONSUMERS,
    )
    default_sandbox_table: str = _setting(
        "",
        "The table an LQL query reads when it names none. Blank = it must name one, unless there is only one.",
        CONSUMERS,
        beside=True,
    )
    sandbox_dialect: str = _setting(
        SandboxDialect.POSTGRESQL.value,
        "The SQL dialect of consumers. BigQuery is for clients that cannot be changed.",
        CONSUMERS,
        choices=(
            (SandboxDialect.POSTGRESQL.value, "PostgreSQL"),
            *((name, each.label) for name, each in DIALECTS.items()),
        ),
    )
    lql_chart_column: str = _setting(
        ChartColumn.AGGREGATE.value,
        "The column with the values of an LQL chart. Always count is for clients that cannot be changed.",
        CONSUMERS,
        beside=True,
        label="LQL chart column",
        title="LQL chart column",
        choices=(
            (ChartColumn.AGGREGATE.value, "Named after the aggregate"),
            (ChartColumn.COUNT.value, "Always count"),
        ),
    )
    timestamps_as: str = _setting(
        TimestampForm.ISO.value,
        "How timestamps are written in every answer, for stored and sandbox queries.",
        CONSUMERS,
        label="timestamps",
        title="timestamps as",
        choices=(
            (TimestampForm.ISO.value, "ISO 8601 text"),
            (TimestampForm.UNIX_MICROSECONDS.value, "Unix microseconds"),
        ),
    )
    redact_pii: bool = _setting(
        False,
        "IP and e-mail addresses become REDACTED in every answer; no caller can switch it off.",
        CONSUMERS,
        label="redaction",
        title="redact PII by default",
    )
    record_argument_values: bool = _setting(
        False,
        "The audit log of calls keeps the values of arguments, not only their names; redacted like the result.",
        CONSUMERS,
        beside=True,
        label="argument values in the audit log",
        title="record argument values",
        in_drafts=False,
    )

    @classmethod
    def of(cls, row: Any, parameters: Iterable[DeclaredParameter]) -> Self:
        """Return the definition in a row of the model or of its history, with these parameters."""
        return cls(**values_of(row), parameters=tuple(parameters))


def _settings() -> Iterator[Setting]:
    for one in fields(Definition):
        if one.metadata:
            setting = one.metadata["setting"]
            yield replace(setting, name=one.name, label=setting.label or one.name.replace("_", " "))


@dataclass(frozen=True, slots=True)
class PublishedTable:
    """A sandbox table as PostgreSQL describes it."""

    name: str
    columns: tuple[Column, ...]

    def to_json(self) -> dict[str, object]:
        """Return it as a JSON value; `from_json` reads it back."""
        return asdict(self)

    @classmethod
    def from_json(cls, json: Any) -> PublishedTable:
        """Return the table that `to_json` has written."""
        return cls(json["name"], tuple(Column(**column) for column in json["columns"]))


@dataclass(frozen=True, slots=True, kw_only=True)
class Version(Definition):
    """An endpoint as calls run it, shared by all threads: its parameters include those that only its SQL names.

    `version` is 0 for a draft. `sandbox_tables` is empty without sandboxing, and until they are first published.
    """

    pk: uuid.UUID
    version: int
    sandbox_tables: tuple[PublishedTable, ...] = ()


SETTINGS: Final[Mapping[str, Setting]] = {setting.name: setting for setting in _settings()}
SETTINGS_IN_DRAFTS: Final = {name: setting for name, setting in SETTINGS.items() if setting.in_drafts}


def values_of(definition: Any) -> dict[str, Any]:
    """Return the SQL and every setting of a definition, an endpoint or a record of its history, by name."""
    return {name: getattr(definition, name) for name in ("sql", *SETTINGS)}


def rows_of_section(section: str) -> tuple[tuple[str, ...], ...]:
    """Return the names of the settings in a section of the page, those that stand beside each other together."""
    rows: list[tuple[str, ...]] = []
    for setting in SETTINGS.values():
        if setting.section == section:
            rows = [*rows[:-1], (*rows[-1], setting.name)] if setting.beside else [*rows, (setting.name,)]
    return tuple(rows)
