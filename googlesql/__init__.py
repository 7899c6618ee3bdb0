"""BigQuery's SQL (GoogleSQL) → PostgreSQL's. `translating` is loaded at first use: sqlglot is an extra, and large."""

from __future__ import annotations
