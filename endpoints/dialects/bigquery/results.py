"""The rows of a whole text: the types whose form in JSON differs from BigQuery's are texts there.

select datetime(timestamp) as t from edge_logs order by t
  ->  SELECT "log_functions"."moment_text"("c1", 'T') AS "t"
      FROM (SELECT … AS "t" … ORDER BY 1) AS "results" ("c1")

The inner query stays as it is, so an index still gives its order, which the outer SELECT keeps.
"""

from __future__ import annotations

from endpoints.dialects.bigquery.text_forms import MOMENTS_AS_TEXT, in_results
from endpoints.dialects.bigquery.tree import FromItem, Name, Output, Query, Select


def as_results(query: Query) -> Query:
    """Return the query of a whole text with its moments in BigQuery's form."""
    if not any(output.kind in MOMENTS_AS_TEXT for output in query.outputs):
        return query
    columns = tuple(f"c{number}" for number, _ in enumerate(query.outputs, 1))
    items = tuple(
        in_results(Name(kind=output.kind, owner=None, column=column))
        for column, output in zip(columns, query.outputs, strict=True)
    )
    outputs = tuple(Output(output.name, item.kind) for output, item in zip(query.outputs, items, strict=True))
    inner = FromItem(query=query, alias="results", columns=columns)
    return Select(outputs=outputs, items=items, from_items=(inner,))
