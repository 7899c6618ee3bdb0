"""Random queries that GoogleSQL accepts, with every clause that the dialect translates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random
from typing import Final

from tests.fuzz.bigquery_values import Values

Columns = Mapping[str, Sequence[str]]
_COMMON: Final[Columns] = {"T": ("t.timestamp",), "S": ("t.event_message", "t.id")}
_FUNCTION: Final[Columns] = {
    "T": ("t.timestamp",),
    "S": ("t.event_message", "m.level", "m.event_type", "m.function_id", "m.version"),
    "I": ("m.ms",),
    "B": ("m.ok",),
}
_EDGE: Final[Columns] = {
    "T": ("t.timestamp", "timestamp"),
    "S": ("event_message", "request.method", "request.path", "request.search", "request.host", "r.METHOD"),
    "I": ("response.status_code", "response.origin_time", "status_code"),
    "F": ("response.ratio", "ratio"),
    "B": ("m.cached", "cached"),
    "A": ("m.tags",),
    "N": ("m.sizes",),
}
# FROM clauses, with the columns that each gives.
SOURCES: Final[Sequence[tuple[str, Columns]]] = (
    ("from edge_logs t", _COMMON),
    ("from function_logs as t cross join unnest(metadata) as m", _FUNCTION),
    ("from function_logs t left join unnest(t.metadata) m", _FUNCTION),
    (
        "from edge_logs t cross join unnest(metadata) as m cross join unnest(m.request) as request"
        " cross join unnest(m.response) as response",
        {name: [path for path in paths if not path.startswith("r.")] for name, paths in _EDGE.items()},
    ),
    (
        "from edge_logs as t, unnest(t.metadata) m, unnest(m.request) r left join unnest(m.response) as response",
        {name: [path for path in paths if not path.startswith("request.")] for name, paths in _EDGE.items()},
    ),
    (
        "from (select timestamp, id, event_message, m.ms as n, m.level from function_logs, unnest(metadata) m) t",
        {"T": ("t.timestamp",), "S": ("t.id", "t.level", "level"), "I": ("t.n", "n")},
    ),
    (
        "from edge_logs t, unnest(metadata) m, unnest(m.tags) as tag with offset as position",
        {"S": ("tag", "t.event_message"), "I": ("position",), "A": ("m.tags",), "B": ("m.cached",)},
    ),
    ("from edge_logs t, t.metadata m, m.sizes as size", {"I": ("size",), "S": ("t.id",), "N": ("m.sizes",)}),
    (
        "from function_logs t, unnest(split(t.event_message, ' ')) as word",
        {"S": ("word", "t.id"), "T": ("t.timestamp",)},
    ),
    ("from (select * except (metadata), 1 as one from function_logs) as t", {**_COMMON, "I": ("one", "t.one")}),
    (
        "from function_logs t cross join (select max(timestamp) as newest, count(*) as n from edge_logs) as e",
        {"T": ("e.newest", "t.timestamp"), "I": ("e.n", "n"), "S": ("t.event_message",)},
    ),
    ("from function_logs t inner join edge_logs e using (timestamp)", {"T": ("timestamp",), "S": ("t.id", "e.id")}),
    (
        "from function_logs t join edge_logs e on t.timestamp = e.timestamp",
        {"T": ("t.timestamp", "e.timestamp"), "S": ("t.id", "e.event_message")},
    ),
    (
        "from function_logs t left join edge_logs e on t.timestamp = e.timestamp and t.event_message like 'b%'",
        {"T": ("t.timestamp", "e.timestamp"), "S": ("t.id", "e.event_message", "e.id")},
    ),
)
_SEVERAL_ROWS_EACH: Final = (" join edge_logs", "tags", "sizes", "split(")  # in which t.id says no order
AGGREGATES: Final[Mapping[str, Sequence[str]]] = {
    "I": ("count(*)", "count({S})", "countif({B})", "sum({I})", "max({I})", "min({I})", "count(distinct {S})",
          "count(case when {B} then 1 end)", "sum(if({B}, 1, 0))", "countif({B}) - count({I})", "bit_or({I})"),
    "F": ("avg({I})", "sum({F})", "max({F})", "safe_divide(countif({B}), count(*))", "round(avg({F}), 2)"),
    "S": ("max({S})", "min({S})", "string_agg(upper(t.event_message), ',' order by t.event_message)",
          "string_agg(distinct t.event_message, '|' order by t.event_message)",
          "array_to_string(array_agg(nullif(t.event_message, 'true') ignore nulls order by t.event_message), ',')"),
    "T": ("max({T})", "min({T})"),
    "B": ("logical_and({B})", "logical_or({B})", "count(*) > 1"),
}  # fmt: skip
WINDOWS: Final[Mapping[str, Sequence[str]]] = {
    "I": (
        "row_number() over (order by {key})", "rank() over (order by {S})", "dense_rank() over (order by {I} desc)",
        "count(*) over (partition by {S})", "sum({I}) over (order by {key})",
        "sum({I}) over (partition by {S} order by {key} rows between 1 preceding and current row)",
        "lag({I}) over (order by {key})", "lead({I}, 2, 0) over (order by {key})", "ntile(3) over (order by {key})",
        "first_value({I}) over (partition by {S} order by {key})", "countif({B}) over (partition by {B})",
        "last_value({I} ignore nulls) over (order by {key} rows between unbounded preceding and current row)",
        "max({I}) over (order by {key} rows between unbounded preceding and 1 following)",
        "nth_value({I}, 2) over (order by {key} rows between unbounded preceding and unbounded following)",
        "sum({I}) over (order by {I} range between 10 preceding and 10 following)",
    ),
    "F": ("avg({I}) over (partition by {S})", "percent_rank() over (order by {I})", "cume_dist() over (order by {S})",
          "percentile_cont({F}, 0.5) over (partition by {B})", "percentile_cont({I}, 0.9) over ()"),
    "S": ("lag({S}) over (order by {key})", "first_value({S}) over (order by {key} desc)",
          "string_agg({S}) over (order by {key})"),
}  # fmt: skip
_STRUCTURES: Final = (
    "struct({S} as a, {I} as n, {T} as tm)", "[struct({T} as tm, {B} as b)]", "{A}", "{N}", "[{T}, {T}]",
    "struct(struct({T} as tm) as inner_one, {S} as s)", "array(select struct(x as x, {T} as tm) from unnest({A}) x)",
    "if({B}, struct({T} as tm), null)",
)  # fmt: skip


class Queries:
    """Makes one query after another from a source of chance."""

    def __init__(self, random: Random) -> None:
        self._random = random

    def ordered(self) -> str:
        """Return a text whose rows have one order: rows that are equal for it have the same values."""
        source, values = self._source()
        first, second = values.value("I", 1), values.value("S", 1)
        by = self._random.choice(
            ("a desc, b", "a, b desc", "1, 2", "b desc nulls first, a asc nulls last", "2, 1 desc")
        )
        limit = self._random.choice(("", "", " limit 3", " limit 2 offset 1"))
        return f"select {first} as a, {second} as b {source}{self._where(values)} order by {by}{limit}"

    def query(self) -> str:
        """Return a text whose rows may come in any order."""
        rows, groups = self._rows, self._groups
        made = self._random.choice(
            (rows, rows, rows, groups, groups, self._windows, self._union, self._common, self._nested)
        )
        return made()

    def _fill(self, shape: str, values: Values, depth: int = 1) -> str:
        for type_ in "IFSBTDLMAN":
            while "{" + type_ + "}" in shape:
                shape = shape.replace("{" + type_ + "}", values.value(type_, depth), 1)
        return shape.replace("{key}", "t.id, t.timestamp")

    def _source(self) -> tuple[str, Values]:
        source, columns = self._random.choice(SOURCES)
        return source, Values(self._random, columns)

    def _items(self, values: Values, most: int = 4) -> str:
        types = self._random.choices("IIFSSSBTTDLMAN", k=self._random.randint(1, most))
        items = [values.value(type_) for type_ in types]
        if self._random.random() < 0.15:
            items.append(self._fill(self._random.choice(_STRUCTURES), values))
        return ", ".join(f"{item} as c{number}" for number, item in enumerate(items))

    def _where(self, values: Values) -> str:
        return f" where {values.value('B')}" if self._random.random() < 0.5 else ""

    def _rows(self) -> str:
        source, values = self._source()
        star = self._random.choice(("", "", "", "t.*, ", "t.* except (metadata), ", "t as whole, "))
        if "select" in source or " join edge_logs" in source:
            star = ""
        text = f"select {star}{self._items(values)} {source}{self._where(values)}"
        if not any(mark in source for mark in _SEVERAL_ROWS_EACH) and self._random.random() < 0.3:
            text += f" order by 0 + {values.value('I', 1)} desc, t.id limit {self._random.randint(0, 5)}"
        elif not star and self._random.random() < 0.1:
            text = text.replace("select ", "select distinct ", 1) if " as c1" not in text else text
        return text

    def _groups(self) -> str:
        source, values = self._source()
        kinds = self._random.sample("SSBDT", k=self._random.randint(1, 2))
        keys = list(dict.fromkeys(values.value(kind, 1) for kind in kinds))
        named = ", ".join(f"{key} as k{number}" for number, key in enumerate(keys))
        types = self._random.choices("IIIFSTB", k=self._random.randint(1, 3))
        aggregates = [self._fill(self._random.choice(AGGREGATES[type_]), values) for type_ in types]
        items = ", ".join(f"{item} as a{number}" for number, item in enumerate(aggregates))
        names, numbers = [f"k{number}" for number in range(len(keys))], [str(number + 1) for number in range(len(keys))]
        by = ", ".join(self._random.choice((names, numbers)))
        if len(keys) == 2:
            by = self._random.choice((by, by, f"rollup({by})", f"cube({by})", f"grouping sets (({by}), ())"))
        text = f"select {named}, {items} {source}{self._where(values)} group by {by}"
        return text + (" having count(*) > 1" if self._random.random() < 0.2 else "")

    def _windows(self) -> str:
        source, columns = self._random.choice(SOURCES[:6])
        values = Values(self._random, columns)
        type_ = self._random.choice("IIFS")
        window = self._fill(self._random.choice(WINDOWS[type_]), values, 0)
        text = f"select t.id, {window} as w {source}"
        if self._random.random() < 0.3:
            text += " where true qualify w is not null" if type_ == "S" else " where true qualify w > 1"
        return text

    def _nested(self) -> str:
        source, values = self._source()
        inner = self._random.choice((
            "(select count(*) from edge_logs o where o.timestamp <= t.timestamp)",
            "(select max(o.event_message) from function_logs o where o.id > t.id)",
            "exists(select 1 from function_logs o where o.id = t.id)",
            "t.id in (select o.id from edge_logs o where o.timestamp > timestamp '2025-06-02')",
            "t.id not in (select o.id from function_logs o)",
            "(select as struct o.id, o.timestamp from edge_logs o order by o.id limit 1).timestamp",
            "array(select o.timestamp from function_logs o where o.id >= t.id order by o.timestamp, o.id)",
            "(select string_agg(part, '/' order by place) from unnest(split(t.id, '-')) as part with offset as place)",
        ))  # fmt: skip
        if " using " in source:
            inner = inner.replace("t.timestamp", "timestamp")
        return f"select t.id, {inner} as c {source}{self._where(values)}"

    def _union(self) -> str:
        types = self._random.choices("ISTBFD", k=2)
        words = self._random.choice(
            ("union all", "union distinct", "except distinct", "intersect distinct", "union all")
        )
        branches = []
        for _ in range(2):
            source, values = self._source()
            items = ", ".join(f"{values.value(type_, 1)} as c{number}" for number, type_ in enumerate(types))
            branches.append(f"select {items} {source}")
        return f" {words} ".join(branches)

    def _common(self) -> str:
        source, values = self._source()
        types = {"a": "S", "b": "I", "tm": "T"}
        items = ", ".join(f"{values.value(type_, 1)} as {name}" for name, type_ in types.items())
        outer = Values(self._random, {"S": ("a", "w.a"), "I": ("b", "w.b"), "T": ("tm", "w.tm")})
        last = self._random.choice((
            f"select {self._items(outer)} from w",
            f"select a, count(*) as n, max(tm) as last from w where {outer.value('B', 1)} group by a",
            "select w as whole from w",
            "select array_agg(struct(a, tm) order by tm, a, b limit 2) as few from w",
            "select array_agg(w order by tm, a, b)[offset(0)].tm as first_tm from w",
            "select s.tm, s.n from (select struct(tm as tm, b as n) as s from w)",
            "select x.tm, x.a from (select array_agg(struct(tm, a)) as xs from w), unnest(xs) as x",
            "select to_json_string(w) as j from w",
            f"select a, b from w where b = (select max(b) from w) or {outer.value('B', 1)}",
            "select a from w where a in (select a from w where b > 1)",
        ))  # fmt: skip
        return f"with w as (select {items} {source}) {last}"
