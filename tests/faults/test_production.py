"""docs/production.md followed to the letter on Debian's own PostgreSQL 15, Redis and nginx: a wrong page fails here."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.drills import wait_for
from tests.files import PROJECT
from tests.live.debian import REPOSITORY, DebianMachine
from tests.live.servers import Servers

PAGE = (PROJECT / "docs" / "production.md").read_text(encoding="utf-8")
INSTALL, UPGRADE = "## Install on Debian 12\n", "## First start and upgrades\n"
RESTORE = "## Backup and restore\n"
PRINTED = "It prints:\n"
HOST = "logs.example.org"
STANDARD_PORTS = {"https": 443, "http": 80}

pytestmark = [pytest.mark.needs(tool) for tool in ("nginx", "postgresql-15")]


def section(title: str) -> str:
    assert PAGE.count(f"\n{title}") == 1
    return PAGE.partition(f"\n{title}")[2].partition("\n## ")[0]


def blocks(text: str) -> list[str]:
    """Return the indented blocks, as a browser shows them: without their indentation."""
    found = re.findall(r"(?:^    .*\n|^\n(?=    ))+", text, re.MULTILINE)
    return [textwrap.dedent(block).strip("\n") + "\n" for block in found]


def steps() -> tuple[str, str, str]:
    """Return what is pasted, what it prints at its end, and what then looks at the installation."""
    before, _, after = section(INSTALL).partition(PRINTED)
    printed, look = blocks(after)
    return "".join(blocks(before)), printed, look


def step(number: int) -> list[str]:
    """Return the blocks of a step of the installation."""
    return blocks(section(INSTALL).partition(f"\n**{number}. ")[2].partition(f"\n**{number + 1}. ")[0])


@dataclass(frozen=True, slots=True)
class Installed:
    """A machine after the steps, and what they printed."""

    machine: DebianMachine
    output: str
    seconds: float

    @property
    def password(self) -> str:
        found = re.search(r"user admin, password (\S+)", self.output)
        assert found is not None, self.output
        return found[1]

    def curl(self, path: str, *options: str, scheme: str = "https") -> str:
        """Call through nginx and return the answer with its headers."""
        port = self.machine.ports[scheme]
        certificate = self.machine.path("/etc/ssl/log-query-endpoints/certificate.pem")
        place = ["--cacert", str(certificate), "--connect-to", f"{HOST}:{STANDARD_PORTS[scheme]}:127.0.0.1:{port}"]
        command = ["curl", "--silent", "--show-error", "--include", "--max-time", "60", *place, *options]
        ended = subprocess.run([*command, f"{scheme}://{HOST}{path}"], capture_output=True, check=True, timeout=90)
        return ended.stdout.decode(errors="replace")


@pytest.fixture(scope="module")
def installed() -> Iterator[Installed]:
    with DebianMachine() as machine:
        started = time.monotonic()
        output = machine.paste(steps()[0])
        yield Installed(machine, output, time.monotonic() - started)


def test_the_steps_end_with_the_first_rows(
    installed: Installed, record_property: Callable[[str, object], None], capsys: pytest.CaptureFixture[str]
) -> None:
    assert REPOSITORY in steps()[0]
    assert json.loads(installed.output.splitlines()[-1]) == json.loads(steps()[1])
    record_property("seconds_from_clone_to_first_rows", round(installed.seconds, 1))
    with capsys.disabled():
        sys.stderr.write(f"\nFrom clone to first rows: {installed.seconds:.0f} s\n")


def test_the_installation_finds_itself_in_order(installed: Installed) -> None:
    # Worker and beat show themselves once a minute.
    wait_for(lambda: installed.machine.paste("log-query-endpoints doctor"), seconds=240)
    output = installed.machine.paste(steps()[2])
    assert "no issues" in output
    lines = [line for line in output.splitlines() if re.match(r"(ok|warn|FAIL) ", line)]
    assert len(lines) > 8
    assert [line for line in lines if not line.startswith("ok ")] == []


def test_only_root_reads_the_secrets_and_writes_the_code(installed: Installed) -> None:
    machine = installed.machine
    assert machine.path("/etc/log-query-endpoints.env").stat().st_mode & 0o777 == 0o600
    if machine.accounts["service"] != machine.accounts["root"]:
        machine.paste("! runuser -u service -- cat /etc/log-query-endpoints.env")
        machine.paste("! runuser -u service -- touch /srv/service/config/settings.py")


def test_static_files_come_compressed_and_stay_in_browsers(installed: Installed) -> None:
    page = installed.curl("/admin/login/")
    sheets = re.findall(r'href="(/static/[^"]+\.css)"', page)
    assert sheets
    assert [sheet for sheet in sheets if not re.search(r"\.[0-9a-f]{12}\.css$", sheet)] == []
    head = installed.curl(sheets[0], "--header", "Accept-Encoding: gzip").partition("\r\n\r\n")[0].lower()
    assert "content-encoding: gzip" in head
    assert re.search(r"cache-control: max-age=\d{8,}, public, immutable", head)


def test_the_login_that_was_shown_opens_the_admin(installed: Installed, tmp_path: Path) -> None:
    cookies = ["--cookie", str(tmp_path / "cookies"), "--cookie-jar", str(tmp_path / "cookies")]
    page = installed.curl("/admin/login/", *cookies)
    token = re.search(r'name="csrfmiddlewaretoken" value="(\w+)"', page)
    assert token is not None
    fields = {"username": "admin", "password": installed.password, "csrfmiddlewaretoken": token[1]}
    form = [part for name, value in fields.items() for part in ("--data-urlencode", f"{name}={value}")]
    answer = installed.curl("/admin/login/?next=/admin/", *cookies, *form, "--referer", f"https://{HOST}/admin/login/")
    assert answer.startswith("HTTP/1.1 302"), answer[:300]
    assert "Health" in installed.curl("/admin/", *cookies)


@pytest.mark.parametrize(
    ("path", "scheme", "status"),
    [
        ("/readyz", "https", 200),
        ("/metrics", "https", 404),
        ("/livez", "http", 301),
        ("/api/openapi.json", "https", 401),
    ],
)
def test_the_proxy_answers(installed: Installed, path: str, scheme: str, status: int) -> None:
    assert installed.curl(path, scheme=scheme).split()[1] == str(status)


def test_a_body_that_the_service_would_not_read_stays_with_the_proxy(installed: Installed, tmp_path: Path) -> None:
    (tmp_path / "body").write_bytes(bytes(17 * 1024**2))
    answer = installed.curl("/api/logs?source=shop_logs", "--data-binary", f"@{tmp_path}/body", "--header", "Expect:")
    assert "413" in answer.partition("\r\n")[0]


def test_a_second_web_server_on_the_port_is_refused(installed: Installed) -> None:
    unit = (PROJECT / "deploy" / "systemd" / "log-query-endpoints-web.service").read_text(encoding="utf-8")
    command = re.search(r"^ExecStart=(.*)$", unit, re.MULTILINE)
    assert command is not None
    lines = [
        "cd /srv/service",
        "set -a",
        ". /etc/log-query-endpoints.env",
        f"! {command[1]}",
        f"! {command[1]} --host 0.0.0.0",
    ]
    output = installed.machine.paste("\n".join(lines) + "\n")
    assert output.count(f"port {installed.machine.ports['web']}") == 2
    assert output.count("The web server cannot listen on") == 2


def test_without_redis_load_fixtures_ends_in_words(installed: Installed) -> None:
    machine = installed.machine
    machine.paste("cp -r /srv/first /srv/second; sed -i s/by-path/by-day/ /srv/second/endpoints.json")
    machine.paste("cp /srv/second/requests-by-path.sql /srv/second/requests-by-day.sql; systemctl stop redis-server")
    try:
        output = machine.paste("log-query-endpoints load_fixtures /srv/second")
    finally:
        machine.paste("systemctl restart redis-server")
    assert "endpoint requests.by-day: created as version 1" in output
    assert "Redis does not answer. Everything is saved" in output
    assert [line for line in output.splitlines() if line.startswith(("{", "Traceback"))] == []


def test_an_upgrade_keeps_rows_and_callers(installed: Installed) -> None:
    machine = installed.machine
    _, upgrade = blocks(section(UPGRADE))
    wait_for(lambda: machine.paste("log-query-endpoints doctor"), seconds=240)
    # A function that the version before did not allow.
    revoked = "REVOKE EXECUTE ON FUNCTION cbrt(float8) FROM sandbox_reader"
    machine.paste(f'runuser -u postgres -- psql --quiet --no-psqlrc --dbname logs --command "{revoked}"')
    output = machine.paste(upgrade.replace("log-query-endpoints doctor\n", ""))
    assert "Sandbox queries need rights that only a superuser can give: run manage.py harden_logs" in output
    token = machine.paste("log-query-endpoints create_access_token after-upgrade --bind project=shop").split()[-1]
    sandbox = "logs.all?sql=select%20cbrt(8)%20as%20n%20from%20edge_logs"
    assert "200 OK" in installed.curl(f"/api/endpoints/query/{sandbox}", "--header", f"X-API-KEY: {token}")
    answer = installed.curl("/api/endpoints/query/requests.by-path", "--header", f"X-API-KEY: {token}")
    assert json.loads(answer.splitlines()[-1]) == json.loads(steps()[1])


def answers(installed: Installed, token: str) -> list[object]:
    """Return what a stored query, a sandbox query and two LQL queries of a consumer return."""
    found = []
    for path in (
        "requests.by-path",
        "logs.all?sql=select%20count(*),%20max(id)%20from%20edge_logs",
        "logs.all?lql=c:count(*)",
        "logs.all?lql=m.status:404%20s:event_message",
    ):
        answer = installed.curl(f"/api/endpoints/query/{path}", "--header", f"X-API-KEY: {token}")
        assert "200 OK" in answer, answer
        found.append(json.loads(answer.splitlines()[-1])["result"])
    return found


def test_a_backup_is_restored_into_a_fresh_cluster(installed: Installed) -> None:
    machine = installed.machine
    token = machine.paste("log-query-endpoints create_access_token restored --bind project=shop").split()[-1]
    machine.paste("log-query-endpoints load_logs edge_logs /srv/first/rows.ndjson")
    before = answers(installed, token)
    assert all(before)
    backup, files, restore = blocks(section(RESTORE))
    machine.paste(backup)
    machine.paste("systemctl stop log-query-endpoints-web log-query-endpoints-worker log-query-endpoints-beat")
    machine.paste("systemctl stop postgresql redis-server; rm /etc/log-query-endpoints.env")
    machine.empty_servers()
    output = machine.paste("".join([files, *step(3), step(4)[0], restore, *step(6)]))
    assert "sandbox schema published: logs.all" in output
    held = re.search(r"(\d+) of (\d+) guarantees hold; level full", output)
    assert held is not None, output
    assert held[1] == held[2]
    wait_for(lambda: "200 OK" in installed.curl("/readyz"), seconds=60)
    assert answers(installed, token) == before
    again = next(line for line in restore.splitlines(keepends=True) if "repair_logs" in line)
    assert machine.paste(again) == "Nothing to do.\n"


def test_the_roles_are_made_on_the_newest_postgresql_too() -> None:
    (block,) = [each for each in blocks(section(INSTALL)) if "CREATE ROLE" in each]
    sql = re.search(r"<<'SQL'\n(.*)^SQL$", block, re.MULTILINE | re.DOTALL)
    assert sql is not None
    # The installation that this server was made for has the names already.
    text = re.sub(r"\b(service_owner|logs_owner|logs_gate|DATABASE (?:service|logs))\b(?! ?')", r"\1_2", sql[1])
    text = text.replace("DATABASE service_2, logs,", "DATABASE service_2, logs_2,")
    passwords = {f"{name}_PASSWORD": "x" for name in ("SERVICE_OWNER", "LOGS_OWNER", "LOGS_GATE")}
    servers = Servers()
    try:
        options = ["--no-psqlrc", "--quiet", "--set", "ON_ERROR_STOP=1", str(servers.urls.superuser_url)]
        ended = subprocess.run(
            ["psql", *options], input=text, env={**os.environ, **passwords}, capture_output=True, text=True, check=False
        )
        assert (ended.returncode, ended.stderr) == (0, "")
        assert servers.value("SELECT current_setting('server_version_num')::int >= 180000")
        assert servers.value("SELECT pg_has_role('logs_owner_2', 'logs_gate_2', 'MEMBER WITH ADMIN OPTION')")
    finally:
        servers.close()
