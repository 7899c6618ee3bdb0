"""PostgreSQL's own parser as a judge: what is wrong with a statement that the sandbox let pass.

It knows nothing of the checker's code: node types, relations, functions, types and operators are allowlists over the
real parse tree of the text that would run, with names looked up the way PostgreSQL does.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from enum import Enum
from typing import Any, Final

import pglast
from pglast import ast, enums

from logsources.allowed_functions import ALLOWED_FUNCTIONS, OWN_FUNCTIONS, SYNTAX_FUNCTIONS
from logsources.guards import BOUNDED_RESULTS, GUARDED_FUNCTIONS, SQUARED


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


FUNCTIONS: Final = {
    "pg_catalog": ALLOWED_FUNCTIONS.union(*SYNTAX_FUNCTIONS.values()) - OWN_FUNCTIONS - GUARDED_FUNCTIONS,
    "log_functions": OWN_FUNCTIONS | GUARDED_FUNCTIONS | BOUNDED_RESULTS.keys() | {SQUARED},
}
TYPES: Final = _words(
    """int2 int4 int8 float4 float8 numeric bool text varchar bpchar bytea date time timetz timestamp timestamptz
    interval json jsonb jsonpath uuid inet cidr macaddr tsrange tstzrange daterange int4range int8range numrange"""
)
CHECKED_DOMAINS: Final = (["format_template"], ["short_format"], ["built_text"], ["built_texts"])
OPERATORS: Final = _words(
    """+ - * / % ^ = <> != < > <= >= || ~ ~* !~ !~* ~~ ~~* !~~ !~~* -> ->> #> #>> #- @> <@ ? ?| ?& @? @@ & | # && << >>
    <<= >>= -|- &< &> ^@ BETWEEN"""
) | {"NOT BETWEEN", "BETWEEN SYMMETRIC", "NOT BETWEEN SYMMETRIC"}
PARAMETER_TYPES: Final = frozenset({"text", "timestamptz"})
NODES: Final = _words(
    """A_ArrayExpr A_Const A_Expr A_Indices A_Indirection A_Star Alias BoolExpr Boolean BooleanTest CaseExpr
    CaseWhen CoalesceExpr ColumnDef ColumnRef CommonTableExpr Float FuncCall GroupingFunc GroupingSet Integer JoinExpr
    MinMaxExpr NamedArgExpr NullTest ParamRef RangeFunction RangeSubselect RangeVar RawStmt ResTarget RowExpr
    SQLValueFunction SelectStmt SortBy String SubLink TypeCast TypeName WindowDef WithClause"""
)
CLOCKS: Final = frozenset(
    f"SVFOP_{name}{suffix}"
    for name in ("CURRENT_DATE", "CURRENT_TIME", "CURRENT_TIMESTAMP", "LOCALTIME", "LOCALTIMESTAMP")
    for suffix in ("", "_N")
)


def complaints(sql: str, tables: Collection[str]) -> list[str]:
    """Return what the statement has that no sandbox query may have; text that PostgreSQL cannot parse has nothing."""
    try:
        statements = pglast.parse_sql(sql)
    except pglast.parser.ParseError:
        return []
    if len(statements) != 1:
        return [f"{len(statements)} statements"]
    statement = statements[0].stmt
    if not isinstance(statement, ast.SelectStmt):
        return [f"a {type(statement).__name__}"]
    return list(_judge(statement, frozenset(tables)))


def parses(sql: str) -> bool:
    """Whether PostgreSQL's parser reads the text."""
    try:
        pglast.parse_sql(sql)
    except pglast.parser.ParseError:
        return False
    return True


def _judge(node: Any, relations: frozenset[str]) -> Iterator[str]:
    if isinstance(node, tuple | list):
        for element in node:
            yield from _judge(element, relations)
        return
    if not isinstance(node, ast.Node):
        return
    name = type(node).__name__
    if name not in NODES:
        yield f"node {name}"
        return
    if (judge := _JUDGES.get(name)) is not None:
        yield from judge(node, relations)
    if isinstance(node, ast.SelectStmt):
        yield from _judge_select(node, relations)
        return
    for attribute in node.__slots__:
        value = getattr(node, attribute)
        if not isinstance(value, str | int | bool | Enum):
            yield from _judge(value, relations)


def _judge_select(select: ast.SelectStmt, relations: frozenset[str]) -> Iterator[str]:
    if select.withClause:
        if select.withClause.recursive:
            yield "WITH RECURSIVE"
        for common_table in select.withClause.ctes:
            if common_table.search_clause or common_table.cycle_clause:
                yield "SEARCH or CYCLE"
            yield from _judge(common_table.ctequery, relations)
            relations |= {common_table.ctename}
    for clause in ("intoClause", "lockingClause", "valuesLists"):
        if getattr(select, clause):
            yield clause
    for attribute in select.__slots__:
        value = getattr(select, attribute)
        if attribute != "withClause" and not isinstance(value, str | int | bool | Enum):
            yield from _judge(value, relations)


def _judge_range_var(node: ast.RangeVar, relations: frozenset[str]) -> Iterator[str]:
    if node.schemaname or node.catalogname:
        yield f"relation of schema {node.schemaname}"
    if node.relname not in relations:
        yield f"relation {node.relname}"
    if not node.inh:
        yield "ONLY"


def _names(strings: Any) -> list[str]:
    return [string.sval for string in strings]


def _judge_call(node: ast.FuncCall, _: frozenset[str]) -> Iterator[str]:
    names = _names(node.funcname)
    if len(names) != 2 or names[1] not in FUNCTIONS.get(names[0], frozenset()):
        yield f"function {'.'.join(names)}"


def _judge_type_name(node: ast.TypeName, _: frozenset[str]) -> Iterator[str]:
    names = _names(node.names)
    if node.setof or node.pct_type:
        yield "SETOF or %TYPE"
    if names[0] == "log_functions" and names[1:] in CHECKED_DOMAINS:
        return
    if names[0] != "pg_catalog" or len(names) != 2 or names[1] not in TYPES:
        yield f"type {'.'.join(names)}"


def _judge_cast(node: ast.TypeCast, _: frozenset[str]) -> Iterator[str]:
    if isinstance(node.arg, ast.ParamRef) and _names(node.typeName.names)[-1] in PARAMETER_TYPES:
        # ours: ($1::text)
        node.typeName = None
    elif isinstance(node.arg, ast.ParamRef):
        yield "parameter of another type"


def _judge_operator(node: ast.A_Expr, _: frozenset[str]) -> Iterator[str]:
    names = _names(node.name)
    if names != ["log_functions", "||"] and (len(names) != 1 or names[0] not in OPERATORS):
        yield f"operator {'.'.join(names)}"


def _judge_sublink(node: ast.SubLink, _: frozenset[str]) -> Iterator[str]:
    names = _names(node.operName or ())
    if node.operName and names != ["log_functions", "||"] and (len(names) != 1 or names[0] not in OPERATORS):
        yield f"operator {'.'.join(_names(node.operName))}"


def _judge_indirection(node: ast.A_Indirection, _: frozenset[str]) -> Iterator[str]:
    if any(isinstance(step, ast.String) for step in node.indirection):
        yield "attribute of an expression"


def _judge_column(node: ast.ColumnRef, _: frozenset[str]) -> Iterator[str]:
    if len(node.fields) > 2:
        yield "column with two dots"


def _judge_join(node: ast.JoinExpr, _: frozenset[str]) -> Iterator[str]:
    if node.alias or node.join_using_alias:
        yield "alias of a join"


def _judge_range_function(node: ast.RangeFunction, _: frozenset[str]) -> Iterator[str]:
    # ours: unnest(a, b) becomes ROWS FROM (unnest(a), unnest(b))
    calls = [_names(function[0].funcname) for function in node.functions if isinstance(function[0], ast.FuncCall)]
    if node.is_rowsfrom and calls != [["pg_catalog", "unnest"]] * len(node.functions):
        yield "ROWS FROM"


def _judge_clock(node: ast.SQLValueFunction, _: frozenset[str]) -> Iterator[str]:
    if enums.SQLValueFunctionOp(node.op).name not in CLOCKS:
        yield enums.SQLValueFunctionOp(node.op).name


def _judge_sort(node: ast.SortBy, _: frozenset[str]) -> Iterator[str]:
    if node.useOp:
        yield "ORDER BY USING"


_JUDGES: Final[dict[str, Any]] = {
    "RangeVar": _judge_range_var,
    "FuncCall": _judge_call,
    "TypeName": _judge_type_name,
    "TypeCast": _judge_cast,
    "A_Expr": _judge_operator,
    "SubLink": _judge_sublink,
    "A_Indirection": _judge_indirection,
    "ColumnRef": _judge_column,
    "JoinExpr": _judge_join,
    "RangeFunction": _judge_range_function,
    "SQLValueFunction": _judge_clock,
    "SortBy": _judge_sort,
}
