"""What each construct of BigQuery means in PostgreSQL: one module a family, one function a construct."""

from __future__ import annotations
