"""The PostgreSQL tree as text, in pieces that remember their place in the consumer's text.

It writes brackets only where PostgreSQL's precedence needs them (manual, 4.1.6): the checker bounds their depth.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

from googlesql import Refused, tree
from googlesql.coercions import as_json

MAX_PIECES: Final = 10_000  # the checker of the result accepts 3,000 tokens
_OR, _AND, _NOT, _IS, _COMPARED, _MATCHED, _OTHER, _SUM, _PRODUCT, _POWER, _ZONE, _SIGN, _CAST, _PRIMARY = range(14)
_PRECEDENCE: Final = {
    "OR": _OR,
    "AND": _AND,
    **dict.fromkeys(("IS DISTINCT FROM", "IS NOT DISTINCT FROM"), _IS),
    **dict.fromkeys(("=", "<>", "<", ">", "<=", ">="), _COMPARED),
    **dict.fromkeys(("LIKE", "NOT LIKE", "ILIKE", "NOT ILIKE", "ESCAPE"), _MATCHED),
    **dict.fromkeys(("+", "-"), _SUM),
    **dict.fromkeys(("*", "/", "%"), _PRODUCT),
    "AT TIME ZONE": _ZONE,
}


def _precedence(node: tree.Expression) -> int:
    match node:
        case tree.Infix() | tree.Chain():
            return _PRECEDENCE.get(node.operator, _OTHER)
        case tree.Prefix():
            return {"NOT": _NOT, "-": _SIGN}.get(node.operator, _OTHER)
        case tree.Test():
            return _IS
        case tree.Between() | tree.In():
            return _MATCHED
        case tree.Cast():
            return _CAST
        case tree.Constant() if node.sql.startswith("-"):
            return _SIGN
        case _:
            return _PRIMARY


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


class Printer:
    """Writes one query; `pieces` joined by blanks are its text, `origins` the places in the consumer's text."""

    def __init__(self) -> None:
        self.pieces: list[str] = []
        self.origins: list[int] = []
        self.origin = 0

    def write(self, *pieces: str) -> None:
        if len(self.pieces) > MAX_PIECES:
            raise Refused("the query", "becomes too long in PostgreSQL's SQL", offset=0)
        for piece in pieces:
            self.pieces.append(piece)
            self.origins.append(self.origin)

    def name(self, name: str) -> None:
        self.write(_quoted(name))

    def separated(self, items: Iterable[Any], write: Callable[[Any], None], separator: str = ",") -> None:
        for number, item in enumerate(items):
            if number:
                self.write(separator)
            write(item)

    # ── expressions

    def expression(self, node: tree.Expression, needed: int = _OR) -> None:
        """Write an expression, in brackets if its surroundings bind tighter."""
        if isinstance(node, tree.Fields):
            node = as_json(node)
        if node.origin >= 0:
            self.origin = node.origin
        bracketed = _precedence(node) < needed
        if bracketed:
            self.write("(")
        _EXPRESSIONS[type(node)](self, node)
        if bracketed:
            self.write(")")

    def expressions(self, nodes: Iterable[tree.Expression]) -> None:
        self.separated(nodes, self.expression)

    def constant(self, node: tree.Constant) -> None:
        self.write(node.sql)

    def column(self, node: tree.Name) -> None:
        self.write(".".join(_quoted(name) for name in (node.owner, node.column) if name is not None))

    def call(self, node: tree.Call) -> None:
        self.write(node.name, "(")
        if node.star:
            self.write("*")
        if node.distinct:
            self.write("DISTINCT")
        self.expressions(node.arguments)
        self.order(node.order)
        self.write(")")
        if node.within:
            self.write("WITHIN", "GROUP", "(")
            self.order(node.within)
            self.write(")")
        if node.condition is not None:
            self.write("FILTER", "(", "WHERE")
            self.expression(node.condition)
            self.write(")")

    def over(self, node: tree.Over) -> None:
        self.expression(node.call)
        self.write("OVER", "(")
        if node.partition:
            self.write("PARTITION", "BY")
            self.expressions(node.partition)
        self.order(node.order)
        if node.frame:
            self.write(node.frame)
        self.write(")")

    def percentile(self, node: tree.Percentile) -> None:
        offset = node.origin if node.origin >= 0 else self.origin
        raise Refused("a percentile with OVER", "can only be in a select list, QUALIFY or ORDER BY", offset=offset)

    def infix(self, node: tree.Infix) -> None:
        precedence = _precedence(node)
        same_side = precedence + (
            precedence in (_COMPARED, _IS) or (precedence == _MATCHED and node.operator != "ESCAPE")
        )
        self.expression(node.left, same_side)
        self.write(node.operator)
        self.expression(node.right, precedence + 1)

    def chain(self, node: tree.Chain) -> None:
        precedence = _precedence(node)
        self.separated(node.operands, lambda operand: self.expression(operand, precedence + 1), node.operator)

    def prefix(self, node: tree.Prefix) -> None:
        self.write(node.operator)
        self.expression(node.operand, _precedence(node) + 1)

    def test(self, node: tree.Test) -> None:
        self.expression(node.operand, _IS + 1)
        self.write(node.question)

    def cast(self, node: tree.Cast) -> None:
        self.expression(node.operand, _CAST)
        self.write(f"::{node.type}")

    def subscript(self, node: tree.Subscript) -> None:
        self.write("(")
        self.expression(node.operand)
        self.write(")")
        if isinstance(node.index, str):
            self.write(f"[{node.index}]")
        else:
            self.write("[")
            self.expression(node.index)
            self.write("]")

    def extract(self, node: tree.Extract) -> None:
        self.write("EXTRACT", "(", node.part, "FROM")
        self.expression(node.operand)
        self.write(")")

    def case(self, node: tree.Case) -> None:
        self.write("CASE")
        if node.operand is not None:
            self.expression(node.operand)
        for condition, result in node.branches:
            self.write("WHEN")
            self.expression(condition)
            self.write("THEN")
            self.expression(result)
        if node.default is not None:
            self.write("ELSE")
            self.expression(node.default)
        self.write("END")

    def between(self, node: tree.Between) -> None:
        self.expression(node.operand, _MATCHED + 1)
        self.write("BETWEEN")
        self.expression(node.low, _CAST)  # AND and AT TIME ZONE would end it
        self.write("AND")
        self.expression(node.high, _MATCHED + 1)

    def membership(self, node: tree.In) -> None:
        self.expression(node.operand, _MATCHED + 1)
        self.write("IN", "(")
        if node.query is not None:
            self.query(node.query)
        else:
            self.expressions(node.items)
        self.write(")")

    def subquery(self, node: tree.Subquery) -> None:
        if node.word:
            self.write(node.word)
        self.write("(")
        self.query(node.query)
        self.write(")")

    def array(self, node: tree.ArrayOf) -> None:
        self.write("ARRAY", "[")
        self.expressions(node.items)
        self.write("]")

    def grouping(self, node: tree.Grouping) -> None:
        if node.word:
            self.write(node.word)
        self.write("(")
        self.expressions(node.items)
        self.write(")")

    # ── queries

    def query(self, node: tree.Query) -> None:
        """Write a query with its WITH list, ORDER BY and LIMIT."""
        if node.common_tables:
            self.write("WITH")
            self.separated(node.common_tables, self.common_table)
        if isinstance(node, tree.SetOperation):
            self.separated(node.branches, self.branch, node.operator)
        elif isinstance(node, tree.Select):
            self.select(node)
        self.order(node.order)
        for word, value in (("LIMIT", node.limit), ("OFFSET", node.offset)):
            if value is not None:
                self.write(word)
                self.expression(value)

    def common_table(self, table: tree.CommonTable) -> None:
        self.name(table.name)
        self.write("AS", "(")
        self.query(table.query)
        self.write(")")

    def branch(self, node: tree.Query) -> None:
        bare = isinstance(node, tree.Select) and not (node.common_tables or node.order or node.limit or node.offset)
        if not bare:
            self.write("(")
        self.query(node)
        if not bare:
            self.write(")")

    def select(self, node: tree.Select) -> None:
        self.write("SELECT")
        if node.distinct:
            self.write("DISTINCT")
        self.separated(zip(node.items, node.outputs, strict=True), self.item)
        for number, item in enumerate(node.from_items):
            self.write(item.join if number else "FROM")
            self.from_item(item)
        for word, condition in (("WHERE", node.where), ("HAVING", node.having)):
            if word == "HAVING" and node.group:
                self.write("GROUP", "BY")
                self.expressions(node.group)
            if condition is not None:
                self.write(word)
                self.expression(condition)

    def item(self, item: tuple[tree.Expression, tree.Output]) -> None:
        expression, output = item
        self.expression(expression)
        self.write("AS")
        self.name(output.name)

    def order(self, items: Iterable[tree.Ordered]) -> None:
        """Write ORDER BY, if there is anything to order by."""
        for number, item in enumerate(items):
            if number:
                self.write(",")
            else:
                self.write("ORDER", "BY")
            self.expression(item.expression)
            if item.descending:
                self.write("DESC")
            if item.nulls:
                self.write("NULLS", item.nulls)

    def from_item(self, item: tree.FromItem) -> None:
        """Write a FROM item and its join condition."""
        if item.origin >= 0:
            self.origin = item.origin
        self.relation(item)
        if item.ordinality:
            self.write("WITH", "ORDINALITY")
        if item.alias:
            self.write("AS")
            self.name(item.alias)
        if item.columns:
            self.write("(")
            self.separated(item.columns, self.name)
            self.write(")")
        self.condition(item)

    def relation(self, item: tree.FromItem) -> None:
        """Write the source of a FROM item."""
        if item.bracketed:
            self.write("(")
            for number, inner in enumerate(item.bracketed):
                if number:
                    self.write(inner.join)
                self.from_item(inner)
            self.write(")")
        elif item.relation is not None:
            self.name(item.relation)
        elif item.call is not None:
            self.expression(item.call)
        elif item.query is not None:
            self.write("(")
            self.query(item.query)
            self.write(")")

    def condition(self, item: tree.FromItem) -> None:
        if item.on is not None:
            self.write("ON")
            self.expression(item.on)
        elif item.using:
            self.write("USING", "(")
            self.separated(item.using, self.name)
            self.write(")")


_EXPRESSIONS: Final[dict[type[tree.Expression], Callable[[Printer, Any], None]]] = {
    tree.Constant: Printer.constant,
    tree.Name: Printer.column,
    tree.Call: Printer.call,
    tree.Over: Printer.over,
    tree.Percentile: Printer.percentile,
    tree.Infix: Printer.infix,
    tree.Chain: Printer.chain,
    tree.Prefix: Printer.prefix,
    tree.Test: Printer.test,
    tree.Cast: Printer.cast,
    tree.Subscript: Printer.subscript,
    tree.Extract: Printer.extract,
    tree.Case: Printer.case,
    tree.Between: Printer.between,
    tree.In: Printer.membership,
    tree.Subquery: Printer.subquery,
    tree.ArrayOf: Printer.array,
    tree.Grouping: Printer.grouping,
}
