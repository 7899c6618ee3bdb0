"""A clause that sqlglot reads and the translation does not is refused: left out, it would change the rows."""

from __future__ import annotations

import pytest
from sqlglot import exp

from endpoints.dialects import DIALECTS
from endpoints.errors import SandboxViolation
from endpoints.results.outcomes import Column
from googlesql import Refused, clauses

TABLES = {"edge_logs": (Column("timestamp", "timestamp with time zone"), Column("id", "text"))}


@pytest.mark.parametrize(
    ("text", "construct", "column"),
    [
        ("select * from (select id from edge_logs) pivot (count(*) for id in ('x'))", "PIVOT", 49),
        ("select * from edge_logs pivot (count(id) for id in ('x'))", "PIVOT", 32),
        ("select * from edge_logs unpivot (a for b in (id))", "UNPIVOT", 34),
        ("select * from edge_logs tablesample system (10 percent)", "TABLESAMPLE", 45),
        ("select * from (select 1 as x) tablesample system (10 percent)", "TABLESAMPLE", 51),
        ("select * from edge_logs for system_time as of timestamp '2025-06-02'", "FOR SYSTEM_TIME", 57),
        ("(select id from edge_logs) where id = 'x'", "WHERE", 34),
        ("(select id from edge_logs) group by id", "GROUP BY", 37),
        ("select id from edge_logs limit 5 percent", "PERCENT or WITH TIES after LIMIT", 32),
        ("select id from edge_logs for update", "FOR UPDATE", 8),
        ("select id from edge_logs sort by id", "SORT BY", 34),
        ("select distinct on (id) id from edge_logs", "DISTINCT ON", 21),
        ("select as value id from edge_logs", "AS VALUE", 17),
        ("select id from edge_logs group by id with rollup", "ROLLUP", 35),
        ("select sum(1) over (rows unbounded preceding exclude ties) from edge_logs", "EXCLUDE", 8),
        ("select id from edge_logs union all by name select id from edge_logs", "BY NAME", 8),
        ("select id from edge_logs left union all select id from edge_logs", "SIDE", 8),
        ("with a as materialized (select 1) select 1 from a", "MATERIALIZED", 6),
        ("select * rename (id as x) from edge_logs", "* RENAME", 18),
        ("select id between symmetric 'a' and 'b' from edge_logs", "SYMMETRIC", 8),
        ("select max(id, timestamp) from edge_logs", "an argument of MAX", 16),
        ("select id from edge_logs as t (a, b)", "an alias", 32),
        ("select a from (select 1) as t (a)", "an alias", 32),
        ("select id from edge_logs@x", "an alias", 16),
        ("select 1 from edge_logs a cross join edge_logs b on a.id = b.id", "CROSS JOIN", 53),
        ("select 1 from edge_logs a join edge_logs b", "JOIN", 32),
    ],
)
def test_names_the_clause_and_its_place(text: str, construct: str, column: int) -> None:
    with pytest.raises(SandboxViolation) as raised:
        DIALECTS["bigquery"].check(text, tables=TABLES)
    (detail,) = raised.value.details
    assert (detail["construct"], detail["line"], detail["column"]) == (construct, 1, column)


CLAUSES = [
    (node, name) for node, read in clauses.TRANSLATED.items() for name in sorted(node.arg_types) if name not in read
]


@pytest.mark.parametrize(("node", "name"), [pytest.param(*pair, id=f"{pair[0].key}-{pair[1]}") for pair in CLAUSES])
def test_refuses_every_part_that_is_not_translated(node: type[exp.Expr], name: str) -> None:
    with pytest.raises(Refused):
        clauses.refuse_unread_clauses(exp.Paren(this=node(**{name: exp.to_identifier("x")})))


@pytest.mark.parametrize("node", clauses.TRANSLATED)
def test_knows_only_parts_that_exist(node: type[exp.Expr]) -> None:
    assert clauses.TRANSLATED[node] <= node.arg_types.keys()
