"""This process's directory: the endpoints and access tokens it knows, current as long as Redis says so."""

from __future__ import annotations

from typing import Final

from endpoints.directory import Directory
from endpoints.generation import current_generation

DIRECTORY: Final = Directory(current_generation)
