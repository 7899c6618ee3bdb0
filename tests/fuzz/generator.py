"""Random queries from a grammar: mostly what the sandbox should let pass, with grafts of what it must not.

Names are drawn from a small pool on purpose: tables, common tables, aliases, columns and functions share it, so that
scopes shadow one another and ``o.a`` is sometimes a column and sometimes a call.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Final

TABLES: Final = {
    "edge_logs": ("id", "timestamp", "event_message", "metadata"),
    "auth_logs": ("id", "timestamp", "event_message", "metadata"),
    "leaks": ("id", "leak", "to_jsonb"),
}
MORE_TABLES: Final = ("database_logs", "function_logs", "function_edge_logs", "storage_logs")  # of the cases
# What exists on the server and must never be reached: a table, a view of the catalog, functions of one's own.
FORBIDDEN_RELATIONS: Final = (
    "auth_user",
    "pg_class",
    "public.auth_user",
    "pg_catalog.pg_proc",
    "information_schema.tables",
)
FORBIDDEN_CALLS: Final = (
    "pg_sleep(1)", "leak(1)", "current_setting('port')", "version()", "pg_typeof(1)", "public.leak(1)",
    "query_to_xml('select 1', true, false, '')", "set_config('a.b', 'c', false)", "pg_catalog.version()",
)  # fmt: skip
ATTRIBUTES: Final = (
    "id",
    "leak",
    "pg_typeof",
    "to_jsonb",
    "row_to_json",
    "x",
    "value",
    "n",
    "timestamp",
    "key",
    "count",
)
ALIASES: Final = ("a", "b", "edge_logs", "leak", "pg_typeof", "x", "c")

Items = dict[str, tuple[str, ...]]


class QueryGenerator:
    """Writes one query at a time; `hostility` is how likely each choice is one that must be refused."""

    def __init__(self, random: Random, *, hostility: float = 0.0, parameters: bool = True) -> None:
        self._random = random
        self._hostility = hostility
        self._parameters = parameters
        self._common_tables: list[Items] = []
        self._items: list[Items] = []
        self._budget = 0

    def query_text(self) -> str:
        """Return one statement."""
        self._common_tables = []
        self._items = []
        self._budget = self._random.randint(3, 40)
        text, _ = self._query()
        if self._chance(0.1):
            text += ";"
        return text

    # ── chances

    def _chance(self, probability: float) -> bool:
        return self._random.random() < probability

    def _hostile(self) -> bool:
        return self._chance(self._hostility)

    def _spend(self) -> bool:
        self._budget -= 1
        return self._budget > 0

    # ── queries

    def _query(self) -> tuple[str, tuple[str, ...]]:
        common_tables: Items = {}
        self._common_tables.append(common_tables)
        text = ""
        if self._spend() and self._chance(0.25):
            text = self._with(common_tables)
        operand, columns, items = self._operand()
        text += operand
        combined = False
        while self._spend() and self._chance(0.15):
            combined = True
            text += f" {self._random.choice(('union', 'union all', 'intersect', 'except'))} {self._operand()[0]}"
        self._items.append({} if combined else items)
        if self._chance(0.25):
            by = "1" if self._chance(0.3) else self._expression()
            text += f" order by {by} {self._random.choice(('', 'desc', 'asc nulls last'))}"
        if self._chance(0.15):
            text += f" limit {self._random.randint(0, 5)}"
        self._items.pop()
        self._common_tables.pop()
        return text, columns

    def _with(self, common_tables: Items) -> str:
        texts = []
        for _ in range(self._random.randint(1, 3)):
            query, columns = self._query()
            name = self._random.choice((*ALIASES, "auth_user") if self._hostile() else ALIASES)
            if name in common_tables:
                continue
            texts.append(f"{name} as ({query})")
            common_tables[name] = columns
        return f"with {', '.join(texts)} " if texts else ""

    def _operand(self) -> tuple[str, tuple[str, ...], Items]:
        if self._spend() and self._chance(0.12):
            text, columns = self._query()
            return f"({text})", columns, {}
        return self._select()

    def _select(self) -> tuple[str, tuple[str, ...], Items]:
        items: Items = {}
        self._items.append(items)
        from_text = self._from() if self._chance(0.85) else ""
        columns: list[str] = []
        outputs = [self._output(columns) for _ in range(self._random.randint(1, 3))]
        text = f"select {'distinct ' if self._chance(0.05) else ''}{', '.join(outputs)}{from_text}"
        if self._chance(0.3):
            text += f" where {self._condition()}"
        if self._chance(0.1):
            text += f" group by {self._expression()}"
        self._items.pop()
        return text, tuple(columns), items

    def _output(self, columns: list[str]) -> str:
        owner, known = self._item()
        if self._chance(0.12) and self._items[-1]:
            columns += [column for names in self._items[-1].values() for column in names]
            return "*"
        if owner and self._chance(0.1):
            columns += known
            return f"{owner}.*" if self._chance(0.5) else f"{owner}.* as {self._random.choice(ATTRIBUTES)}"
        text = self._expression()
        label = self._random.choice(ATTRIBUTES)
        columns.append(label)
        return f"{text} as {label}" if self._chance(0.8) else f"{text} {label}"

    # ── FROM

    def _from(self) -> str:
        texts = [self._from_item()]
        while self._spend() and self._chance(0.3):
            joined = self._from_item()
            join = self._random.choice((", ", " cross join ", " join ", " left join ", " natural join "))
            texts.append(join + joined + (" on true" if join in (" join ", " left join ") else ""))
        return " from " + "".join(texts)

    def _from_item(self) -> str:
        if self._hostile():
            return self._random.choice(FORBIDDEN_RELATIONS)
        kind = self._random.random()
        alias = self._random.choice(ALIASES)
        if kind < 0.2 and self._spend():
            query, columns = self._query()
            self._items[-1][alias] = columns
            return f"{'lateral ' if self._chance(0.3) else ''}({query}) {'as ' if self._chance(0.5) else ''}{alias}"
        if kind < 0.4:
            text, columns = self._random.choice(
                (
                    ("generate_series(1, 3)", (alias,)),
                    ("unnest(array['a', 'b'])", (alias,)),
                    ("unnest(array(select leaks from leaks))", ()),
                    ("unnest(array[1], array[2])", ()),
                    ("unnest(array[1], array[2]) with ordinality", ("ordinality",)),
                    ("jsonb_each('{}')", ("key", "value")),
                    ("jsonb_array_elements('[]')", ("value",)),
                    ("string_to_table('a,b', ',')", (alias,)),
                )
            )
            if self._chance(0.2):
                columns = (self._random.choice(ATTRIBUTES),)
                self._items[-1][alias] = columns
                return f"{text} as {alias}({columns[0]})"
            self._items[-1][alias] = columns
            return f"{text} {alias}"
        visible: Items = {**TABLES}
        for common_tables in self._common_tables:
            visible.update(common_tables)
        name = self._random.choice(list(visible))
        if self._chance(0.5):
            self._items[-1][name] = visible[name]
            return name
        self._items[-1][alias] = visible[name]
        return f"{name} {alias}"

    def _item(self) -> tuple[str, tuple[str, ...]]:
        items = [item for level in self._items for item in level.items()]
        return self._random.choice(items) if items else ("", ())

    # ── expressions

    def _expression(self) -> str:
        if self._hostile():
            return self._random.choice(
                (*FORBIDDEN_CALLS, "current_user", "(select password from auth_user)", "'1'::regclass")
            )
        if not self._spend():
            return self._leaf()
        return self._random.choice(_EXPRESSIONS)(self)

    def _leaf(self) -> str:
        owner, columns = self._item()
        choice = self._random.random()
        if owner and choice < 0.35:
            known = [column for column in columns if column]
            column = self._random.choice(known) if known and self._chance(0.93) else self._random.choice(ATTRIBUTES)
            return f"{owner}.{column}"
        if owner and choice < 0.45:
            return owner
        if columns and choice < 0.6:
            return self._random.choice(columns)
        if self._parameters and choice < 0.63:
            return "@p"
        return self._random.choice(("1", "'text'", "null", "true", "now()", "'it''s \\'", "date '2025-01-01'", "2.5"))

    def _condition(self) -> str:
        return self._random.choice(
            (
                lambda: f"{self._expression()} is not null",
                lambda: f"{self._expression()}::text like '%a%' and true",
                lambda: f"exists (select 1{self._from_of_own()})",
                lambda: f"{self._leaf()}::text in (select 'a')",
                lambda: f"{self._leaf()}::text between 'a' and 'b'",
            )
        )()

    def _from_of_own(self) -> str:
        self._items.append({})
        text = self._from()
        if self._chance(0.5):
            text += f" where {self._condition()}"
        self._items.pop()
        return text

    def _call(self) -> str:
        name = self._random.choice(("to_jsonb", "count", "num_nulls", "json_build_array", "concat", "max"))
        argument = f"{self._expression()}::text" if name == "max" else self._expression()
        return f"{name}({argument})"

    def _scalar_query(self) -> str:
        text, _ = self._query()
        return f"({text})"


_EXPRESSIONS: Final[tuple[Callable[[QueryGenerator], str], ...]] = (
    QueryGenerator._leaf,
    QueryGenerator._leaf,
    QueryGenerator._leaf,
    QueryGenerator._call,
    QueryGenerator._scalar_query,
    lambda self: f"({self._expression()})::text",
    lambda self: f"{self._leaf()}::text || 'x'",
    lambda self: f"coalesce({self._leaf()}::text, '')",
    lambda self: f"case when {self._condition()} then 1 else 2 end",
    lambda self: f"array(select {self._leaf()}{self._from_of_own()})",
    lambda self: f"count(*) filter (where {self._condition()})",
    lambda self: f"row_number() over (order by {self._leaf()})",
    lambda self: f"({self._leaf()}, {self._leaf()})",
    lambda self: f"substring('abc' from {self._random.randint(1, 3)})",
    lambda self: f"extract(epoch from now()) + {self._random.randint(0, 3)}",
    lambda self: f"({self._leaf()}).{self._random.choice(ATTRIBUTES)}" if self._hostile() else f"({self._leaf()})",
)
