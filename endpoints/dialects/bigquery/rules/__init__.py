"""The meaning of each BigQuery construct in PostgreSQL: one module per family, one function per construct."""

from __future__ import annotations
