"""Rows, and how they become bytes: encoded and redacted."""
