"""Rewrites of sqlglot's tree before it is lowered, one per file, each from a SELECT to a SELECT.

They run in the order of `SELECT_PASSES`: `output_names` first, because every later one looks items up by name.
"""

from __future__ import annotations

from endpoints.dialects.bigquery.passes.alias_references import alias_references
from endpoints.dialects.bigquery.passes.clauses import refuse_other_clauses
from endpoints.dialects.bigquery.passes.output_names import output_names
from endpoints.dialects.bigquery.passes.stars import expand_stars

__all__ = ["alias_references", "expand_stars", "output_names", "refuse_other_clauses"]
