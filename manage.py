#!/usr/bin/env python3
"""Django's command line. Where the environment names no servers, commands run on the embedded ones."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from config.embedded import EmbeddedServerError
from config.local import servers_for

PROJECT = Path(__file__).resolve().parent


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
    try:
        with servers_for(sys.argv, PROJECT):
            # After the servers are up: the settings read their addresses.
            from django.core.management import execute_from_command_line

            execute_from_command_line(sys.argv)
    except EmbeddedServerError as error:
        sys.exit(f"manage.py: {error}")


if __name__ == "__main__":
    main()
