"""The rows of a whole text: what has another form in BigQuery's results than PostgreSQL gives it is written there.

select datetime(timestamp) as t, struct(timestamp as at) as s from edge_logs order by t
  ->  SELECT "log_functions"."moment_text"("c1", 'T') AS "t",
        "c2" || jsonb_build_object('at', … microseconds …) AS "s"
      FROM (SELECT … AS "t", … AS "s" … ORDER BY 1) AS "results" ("c1", "c2")

The inner query stays as it is, so an index still gives its order, which the outer SELECT keeps. Columns of type
timestamptz stay: the encoding of results writes them.
"""

from __future__ import annotations

from googlesql import Moments
from googlesql.coercions import as_timestamp
from googlesql.kinds import Array, Kind, Shape, Struct
from googlesql.text_forms import MOMENTS_AS_TEXT, in_results
from googlesql.tree import (
    Constant,
    Expression,
    Extract,
    FromItem,
    Name,
    Output,
    Query,
    Select,
    Subquery,
    call,
    cast,
    in_utc,
    infix,
    string,
)


def as_results(query: Query, moments: Moments) -> Query:
    """Return the query of a whole text with its moments in BigQuery's form, and TIMESTAMPs in structs in this form."""
    if not any(map(_is_rewritten, query.outputs)):
        return query
    columns = tuple(f"c{number}" for number, _ in enumerate(query.outputs, 1))
    items = tuple(
        _written(in_results(Name(kind=output.kind, owner="results", column=column)), output.shape, moments)
        for column, output in zip(columns, query.outputs, strict=True)
    )
    outputs = tuple(Output(output.name, item.kind) for output, item in zip(query.outputs, items, strict=True))
    inner = FromItem(query=query, alias="results", columns=columns)
    return Select(outputs=outputs, items=items, from_items=(inner,))


def _is_rewritten(output: Output) -> bool:
    return output.kind in MOMENTS_AS_TEXT or (output.kind is Kind.JSON and _has_timestamp(output.shape))


def _has_timestamp(shape: Shape | None) -> bool:
    match shape:
        case Struct(fields=fields):
            return any(_has_timestamp(inner) for _, inner in fields)
        case Array(element=element):
            return _has_timestamp(element)
        case _:
            return shape is Kind.TIMESTAMP


def _written(value: Expression, shape: Shape | None, form: Moments, depth: int = 0) -> Expression:
    if value.kind is not Kind.JSON or not _has_timestamp(shape):
        return value
    match shape:
        case Struct(fields=fields):
            # s  ->  s || jsonb_build_object('t', …): NULL stays NULL
            pairs: list[Expression] = []
            for name, inner in fields:
                if _has_timestamp(inner):
                    field = infix(value, "->", string(name), kind=Kind.JSON)
                    pairs += [string(name), _written(field, inner, form, depth)]
            return infix(value, "||", call("jsonb_build_object", *pairs, kind=Kind.JSON), kind=Kind.JSON)
        case Array(element=element):
            return _written_elements(value, element, form, depth)
        case _:
            return call("to_jsonb", _moment(value, form), kind=Kind.JSON)


def _written_elements(value: Expression, element: Shape | None, form: Moments, depth: int) -> Expression:
    # a  ->  coalesce((select jsonb_agg(…) from json_elements(a) as element_0), a): an empty array stays empty
    alias = f"element_{depth}"
    item = _written(Name(kind=Kind.JSON, owner=None, column=alias), element, form, depth + 1)
    elements = Select(
        outputs=(Output("written", Kind.JSON),),
        items=(call("jsonb_agg", item, kind=Kind.JSON),),
        from_items=(FromItem(call=call("json_elements", value, kind=Kind.JSON), alias=alias),),
    )
    return call("COALESCE", Subquery(kind=Kind.JSON, query=elements), value, kind=Kind.JSON)


def _moment(value: Expression, form: Moments) -> Expression:
    moment = as_timestamp(value)
    if form == "microseconds":
        million = Constant(kind=Kind.NUMBER, sql="1000000")
        epoch = infix(Extract(kind=Kind.NUMBER, part="epoch", operand=moment), "*", million, kind=Kind.NUMBER)
        return cast(epoch, "bigint", Kind.INTEGER)
    return call("to_char", in_utc(moment, Kind.DATETIME), string('YYYY-MM-DD"T"HH24:MI:SS.US"Z"'), kind=Kind.TEXT)
