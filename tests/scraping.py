"""How docs/production.md has Prometheus scrape the service, in both installations."""

from __future__ import annotations

import re
import textwrap
from typing import Any, Final

import yaml

from tests.files import PROJECT

_JOB: Final = re.compile(r"^ {4}- job_name: .*\n(?: {6}.*\n)+", re.MULTILINE)


def scrape_jobs() -> list[dict[str, Any]]:
    """Return the jobs of the page: on Debian, and with Docker Compose."""
    page = (PROJECT / "docs" / "production.md").read_text(encoding="utf-8")
    return [job for block in _JOB.findall(page) for job in yaml.safe_load(textwrap.dedent(block))]


def allowed_hosts_on_debian() -> str:
    page = (PROJECT / "docs" / "production.md").read_text(encoding="utf-8")
    found = re.search(r"^ {4}ALLOWED_HOSTS=(.*)$", page, re.MULTILINE)
    assert found is not None
    return found[1].replace("$HOST", "logs.example.org")


def allowed_hosts_of_compose() -> str:
    file = yaml.safe_load((PROJECT / "docker-compose.yml").read_text(encoding="utf-8"))
    written = file["services"]["web"]["environment"]["ALLOWED_HOSTS"]
    return re.sub(r"\$\{ALLOWED_HOSTS:[^}]*\}", "logs.example.org", written)
