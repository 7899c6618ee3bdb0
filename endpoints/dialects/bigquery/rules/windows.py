"""Window functions, SAFE. calls, and PostgreSQL's own functions, as used in texts for self-hosted servers."""

from __future__ import annotations

from typing import Final

from sqlglot import exp

from endpoints.dialects.bigquery.coercions import output
from endpoints.dialects.bigquery.kinds import Kind
from endpoints.dialects.bigquery.lowering import Lowering, Rule, offset_of
from endpoints.dialects.bigquery.refusals import refusal_of
from endpoints.dialects.bigquery.rules.functions_by_name import BY_NAME
from endpoints.dialects.bigquery.tree import Call, Expression, Over, call
from logsources.allowed_functions import ALLOWED_FUNCTIONS

_RANKS: Final[dict[type[exp.Expr], str]] = {
    exp.RowNumber: "row_number",
    exp.Rank: "rank",
    exp.DenseRank: "dense_rank",
    exp.PercentRank: "percent_rank",
    exp.CumeDist: "cume_dist",
}
_NEIGHBOURS: Final[dict[type[exp.Expr], str]] = {
    exp.Lag: "lag",
    exp.Lead: "lead",
    exp.FirstValue: "first_value",
    exp.LastValue: "last_value",
}


def window(node: exp.Window, lowering: Lowering) -> Expression:
    if node.args.get("alias") is not None:
        raise refusal_of(node, construct="WINDOW")
    value = lowering.lower(node.this)
    if not isinstance(value, Call):
        raise refusal_of(node.this, "cannot be used with OVER here")
    partition = tuple(map(output, lowering.lower_all(node.args.get("partition_by") or [])))
    frame = node.args.get("spec")
    return Over(
        kind=value.kind,
        call=value,
        partition=partition,
        order=lowering.order(node.args.get("order")),
        frame=_frame(frame) if frame is not None else "",
    )


def _frame(spec: exp.WindowSpec) -> str:
    bounds: list[str] = []
    for side in ("start", "end"):
        bound = spec.args.get(side)
        if bound is None:
            continue
        words = bound if isinstance(bound, str) else bound.name
        if words not in ("UNBOUNDED", "CURRENT ROW") and not words.isdigit():
            raise refusal_of(spec, construct="this window frame")
        bounds.append(f"{words} {spec.args.get(f'{side}_side') or ''}".strip())
    kind = str(spec.args.get("kind") or "ROWS")
    return f"{kind} BETWEEN {bounds[0]} AND {bounds[1]}" if len(bounds) == 2 else f"{kind} {bounds[0]}"


def rank(node: exp.Func, _: Lowering) -> Expression:
    return call(_RANKS[type(node)], kind=Kind.INTEGER)


def neighbour(node: exp.Func, lowering: Lowering) -> Expression:
    value = output(lowering.lower(node.this))
    more = [node.args[name] for name in ("offset", "default") if node.args.get(name) is not None]
    return Call(
        kind=value.kind, name=_NEIGHBOURS[type(node)], arguments=(value, *map(output, lowering.lower_all(more)))
    )


def safe(node: exp.SafeFunc, lowering: Lowering) -> Expression:
    # Every form is the safe form here.
    return lowering.lower(node.this)


def other_function(node: exp.Anonymous, lowering: Lowering) -> Expression:
    """A function that BigQuery does not have: PostgreSQL's function, if it is allowed."""
    name = node.name.lower()
    if name in BY_NAME:
        return BY_NAME[name](node, lowering)
    if name not in ALLOWED_FUNCTIONS:
        raise refusal_of(node, "is not a function of the BigQuery dialect of this service")
    arguments = tuple(map(output, lowering.lower_all(node.expressions)))
    return Call(kind=Kind.OTHER, name=name, arguments=arguments, origin=offset_of(node))


RULES: Final[dict[type[exp.Expr], Rule]] = {
    exp.Window: window,
    **dict.fromkeys(_RANKS, rank),
    **dict.fromkeys(_NEIGHBOURS, neighbour),
    exp.SafeFunc: safe,
    exp.Anonymous: other_function,
}
