"""A pytest plugin (`-p tests.selection`): which tests a run takes, in which order, and what it says of the others.

- `pytest` takes everything it can; a test whose tool this machine lacks is left out.
- `pytest --installations=without` (`make test`) leaves out what starts whole installations, which takes minutes;
  `--installations=only` takes nothing else.
- `pytest --require-all` (`.ci/run`) fails when anything is left out, so that nothing can be missing without a word.
- `pytest --shippers tests/shippers` (`make test-shippers`) takes what installs real shippers, which nothing else takes.
- `pytest --clients tests/clients` (`make test-clients`) takes what makes clients with generators from npm, likewise.
- `pytest --conformance tests/conformance` (`make test-conformance`) likewise takes conformance suites of others.
- `pytest --postgres=FOLDER -m sql` takes what another version of PostgreSQL may answer differently: `sql` marks it.
- `pytest --record-durations` writes how long each module took, by which later runs order them.

Every run says in one line at its end what it left out and how to get it.
"""

from __future__ import annotations

import json
import math
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling

TESTS = Path(__file__).resolve().parent
# Whole installations. They begin first, in this order, and a folder's tests stay on one worker, since they share one.
INSTALLATIONS = ("browser", "faults", "endpoints/management/commands/test_demo.py")
# Drills that mostly wait for their own clocks. They come after the others, the longest first, module by module to
# whichever worker is free; the drills that load the machine stay together, so that no two of them meet.
WAITING_DRILLS = (
    "faults/test_production.py",
    "faults/test_documented_examples.py",
    "faults/test_slow_clients.py",
    "faults/test_simulated_hour.py",
    "faults/test_web_processes.py",
    "faults/test_worker_drills.py",
    "faults/test_clock_steps.py",
)
CLUSTER = ("cluster",)  # what is so on a cluster alone
SHIPPERS = ("shippers",)  # they install packages from npm and PyPI
CLIENTS = ("clients",)  # they install packages from npm
CONFORMANCE = ("conformance",)  # likewise
# A test of these, with what it sets up, may take longer than `timeout` of pyproject.toml says.
TAKE_LONG = (*INSTALLATIONS, *CLUSTER, *SHIPPERS, *CLIENTS, *CONFORMANCE)
TAKE_LONG_SECONDS = 900
IN_ORDER = (*INSTALLATIONS, *WAITING_DRILLS)  # the others follow, those that take long first
# How many seconds a module took, on whichever machine, if more than one: `--record-durations` writes it.
DURATIONS = TESTS / "durations.json"


@dataclass(frozen=True, slots=True)
class Tool:
    """A program or library of the machine that some tests need, and the Debian package that brings it."""

    package: str
    pattern: str  # of its file, below /usr

    def is_there(self) -> bool:
        return any(Path("/usr").glob(self.pattern))


TOOLS = {
    "chromium": Tool("chromium", "bin/chromium"),
    "libfaketime": Tool("libfaketime", "lib/*/faketime/libfaketime.so.1"),
    "nginx": Tool("nginx-light", "sbin/nginx"),
    "postgresql-15": Tool("postgresql-15", "lib/postgresql/15/bin/postgres"),
    "jq": Tool("jq", "bin/jq"),
    "pgbouncer": Tool("pgbouncer", "sbin/pgbouncer"),
    "prometheus": Tool("prometheus", "bin/prometheus"),
}
FOLDER_TOOLS = {"browser": "chromium"}  # what every test of a folder needs
_left_out = pytest.StashKey[Counter[str]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("which tests run")
    group.addoption(
        "--installations",
        choices=("with", "without", "only"),
        default="with",
        help="run the drills and browser tests too, not, or alone; default: with",
    )
    group.addoption("--shippers", action="store_true", help="also install and run real log shippers and loggers")
    group.addoption("--clients", action="store_true", help="also install generators of clients from npm and run them")
    group.addoption("--conformance", action="store_true", help="also install and run conformance suites of others")
    group.addoption("--require-all", action="store_true", help="fail when anything is left out for want of a tool")
    group.addoption("--record-durations", action="store_true", help=f"write how long modules take to {DURATIONS.name}")
    group.addoption("--oracle-texts", type=int, default=500, help="random texts for GoogleSQL and us; default: 500")


def pytest_configure(config: pytest.Config) -> None:
    config.stash[_left_out] = Counter()
    if config.getoption("record_durations") and not _is_worker(config):
        config.pluginmanager.register(Durations(config.rootpath))
    config.addinivalue_line("markers", "stopped_by_policy(text): the browser says that its policy stopped this")
    config.addinivalue_line("markers", "one_server(reason): tells of one server what is otherwise on a cluster")
    config.addinivalue_line("markers", "sql: depends on the version of PostgreSQL, so it runs on the oldest one too")
    config.addinivalue_line("markers", f"needs(tool): needs a tool of the machine: {', '.join(TOOLS)}")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Pass by what the run leaves out whatever it holds: it is not even imported."""
    is_folder = collection_path.is_dir()
    modules = list(collection_path.rglob("test_*.py")) if is_folder else [collection_path]
    reasons = [_reason_to_leave_out_module(module, config) for module in modules if module.match("test_*.py")]
    if not reasons or None in reasons:
        return None
    if _is_asked_for(collection_path, config):
        config.stash[_left_out].update(reason for reason in reasons if reason)
    return True


def _is_asked_for(path: Path, config: pytest.Config) -> bool:
    """Tell whether a path is in a folder of the command line; pytest looks at their neighbours too."""
    folders = [config.invocation_params.dir / argument for argument in config.args]
    return any(path.is_relative_to(folder) for folder in folders)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Take what can run here; long shared installations first, and each of them on one worker."""
    taken, left_out = [], []
    named_modules = {}  # on the command line, so that nobody passed them by
    for item in items:
        if reason := _reason_to_leave_out_module(item.path, config):
            named_modules[item.path] = reason
            left_out.append(item)
        elif reason := _reason_to_leave_out(item, config):
            config.stash[_left_out][reason] += 1
            left_out.append(item)
        else:
            taken.append(item)
            if _is_below(item.path, TAKE_LONG) and item.get_closest_marker("timeout") is None:
                item.add_marker(pytest.mark.timeout(TAKE_LONG_SECONDS))
    config.stash[_left_out].update(named_modules.values())
    # What takes longest comes first, so that no worker is left alone with it at the end.
    items[:] = sorted(taken, key=lambda item: _rank(item.path))
    config.hook.pytest_deselected(items=left_out)


@cache
def _rank(module: Path) -> int:
    """Return when the turn of a module's tests is: the last place that fits is the most exact one.

    Modules of which none takes twice as long as another have the same turn, and stay in random order.
    """
    fitting = [number for number, place in enumerate(IN_ORDER) if _is_below(module, (place,))]
    seconds = _durations().get(module.relative_to(TESTS).as_posix(), 1.0) if module.is_relative_to(TESTS) else 1.0
    return max(fitting, default=1_000 - int(math.log2(seconds)))


@cache
def _durations() -> dict[str, float]:
    return json.loads(DURATIONS.read_text()) if DURATIONS.exists() else {}


def _reason_to_leave_out_module(module: Path, config: pytest.Config) -> str | None:
    for places, option in ((SHIPPERS, "shippers"), (CLIENTS, "clients"), (CONFORMANCE, "conformance")):
        if _is_below(module, places) and not config.getoption(option):
            return option
    if _is_below(module, CLUSTER) and not config.getoption("citus", default=False):
        return "cluster"
    which = config.getoption("installations")
    if _is_below(module, INSTALLATIONS):
        return "installations" if which == "without" else None
    return "others" if which == "only" else None


def _reason_to_leave_out(item: pytest.Item, config: pytest.Config) -> str | None:
    needed: list[str] = [mark.args[0] for mark in item.iter_markers("needs")]
    needed += [tool for folder, tool in FOLDER_TOOLS.items() if _is_below(item.path, (folder,))]
    for name in needed:
        if not TOOLS[name].is_there():
            return name
    if config.getoption("citus", default=False) and item.get_closest_marker("one_server"):
        return "one server"
    return None


@cache
def _is_below(module: Path, places: tuple[str, ...]) -> bool:
    return any(module.is_relative_to(TESTS / place) for place in places)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> LoadScopeScheduling:
    return SetUpScheduling(config, log)


class SetUpScheduling(LoadScopeScheduling):  # type: ignore[misc]  # xdist ships no types
    """Hands a worker tests that share their set-up together: those of an installation, or of a module."""

    def _split_scope(self, nodeid: str) -> str:
        return scope(nodeid.partition("::")[0])


def scope(module: str) -> str:
    """Return what the tests of a module (`tests/faults/test_bodies.py`) share their worker with: a folder, or it."""
    path = Path(module).relative_to(TESTS.name)
    is_alone = path.as_posix() in WAITING_DRILLS or path.parts[0] not in INSTALLATIONS
    return module if is_alone else path.parts[0]


# --- How long modules take: added up by the process that reports ------------------------------------------------------
class Durations:
    """A plugin that writes what the modules of a run took; those that do not run keep their figures."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._seconds: dict[Path, float] = defaultdict(float)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._seconds[self._root / report.nodeid.partition("::")[0]] += report.duration

    def pytest_sessionfinish(self) -> None:
        ran = {module.relative_to(TESTS).as_posix(): round(took) for module, took in self._seconds.items()}
        all_known = _durations() | ran
        kept = {module: took for module, took in all_known.items() if took > 1 and (TESTS / module).exists()}
        DURATIONS.write_text(json.dumps(dict(sorted(kept.items())), indent=1) + "\n")


# --- What was left out: counted by the processes that collect, told by the one that reports ---------------------------
def pytest_sessionfinish(session: pytest.Session) -> None:
    output = getattr(session.config, "workeroutput", None)
    if output is not None:
        left_out: Counter[str] = session.config.stash[_left_out]
        output["left_out"] = dict(left_out)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: object) -> None:
    config, output = getattr(node, "config"), getattr(node, "workeroutput", {})  # noqa: B009
    # Every worker collects everything; their counts are the same.
    config.stash[_left_out] |= Counter(output.get("left_out", {}))


@pytest.hookimpl(wrapper=True)
def pytest_runtestloop(session: pytest.Session) -> Iterator[None]:
    result = yield
    if _fails(session.config):
        raise session.Failed(sentence(session.config.stash[_left_out]))
    return result


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if config.stash[_left_out]:
        failed = "--require-all fails this run. " if _fails(config) else ""
        terminalreporter.write_line(failed + sentence(config.stash[_left_out]))


def _fails(config: pytest.Config) -> bool:
    return config.getoption("require_all") and not _is_worker(config) and bool(_missing_tools(config.stash[_left_out]))


def _missing_tools(left_out: Counter[str]) -> list[str]:
    return [name for name in TOOLS if left_out[name]]


def _is_worker(config: pytest.Config) -> bool:
    return hasattr(config, "workeroutput")


_SAID = {
    "one server": "tests that tell of one server what is otherwise on a cluster",
    "cluster": "modules that need a Citus cluster (make test-citus)",
    "shippers": "modules that install and run real log shippers (make test-shippers)",
    "clients": "modules that make clients with generators from npm (make test-clients)",
    "conformance": "modules of conformance suites that others have written (make test-conformance)",
    "others": "modules that start no installation",
}


def sentence(left_out: Counter[str]) -> str:
    """Say how many tests were left out, or whole modules that nobody has looked into, and how to get them."""
    parts = []
    missing = _missing_tools(left_out)
    if count := left_out["installations"]:
        parts.append(f"modules that start whole installations or a browser (make test-all runs them): {count}")
    if missing:
        packages = " ".join(TOOLS[name].package for name in missing)
        count = sum(left_out[name] for name in missing)
        parts.append(f"tests that need what is not installed here (apt install {packages}): {count}")
    parts += [f"{what}: {left_out[reason]}" for reason, what in _SAID.items() if left_out[reason]]
    return f"Left out: {'; '.join(parts)}."
