"""What a run of the suite leaves out, what it says of it, and when that makes it fail."""

from __future__ import annotations

import json
from collections import Counter

import pytest

from tests import selection
from tests.selection import TESTS, Tool, scope, sentence

pytest_plugins = ["pytester"]

SOME_TESTS = """
    import pytest

    @pytest.mark.needs("absent")
    def test_with_the_tool():
        assert False, "the tool is not there"

    def test_without_it():
        pass
"""

LIMITS = """
    def pytest_collection_finish(session):
        for item in session.items:
            limit = item.get_closest_marker("timeout")
            print(f"{item.name}: {limit.args[0] if limit else 'usual'}")
"""


@pytest.fixture
def suite(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """A suite of its own: a test that needs a tool which nobody has, one that needs nothing, and a drill."""
    monkeypatch.setattr(selection, "TESTS", pytester.path)
    monkeypatch.setattr(selection, "TOOLS", {"absent": Tool("absent-tool", "bin/no-such-program")})
    pytester.makepyfile(test_some=SOME_TESTS)
    pytester.mkdir("faults").joinpath("test_drill.py").write_text("def test_drill():\n    pass\n")
    return pytester


def run(suite: pytest.Pytester, *options: str) -> pytest.RunResult:
    # The limit of a test is the process's alarm: that of a run inside would end this one's.
    without = [word for plugin in ("django", "randomly", "timeout") for word in ("-p", f"no:{plugin}")]
    return suite.runpytest_inprocess("-p", "tests.selection", *without, *options)


def test_a_test_whose_tool_is_absent_is_left_out_and_named(suite: pytest.Pytester) -> None:
    result = run(suite)
    result.assert_outcomes(passed=2, deselected=1)
    result.stdout.fnmatch_lines(["Left out: tests that need what is not installed here (apt install absent-tool): 1."])
    assert result.ret == pytest.ExitCode.OK


def test_require_all_fails_when_a_tool_is_absent(suite: pytest.Pytester) -> None:
    result = run(suite, "--require-all")
    result.stdout.fnmatch_lines(["--require-all fails this run. Left out: tests that need *(apt * absent-tool): 1."])
    assert result.ret == pytest.ExitCode.TESTS_FAILED


def test_require_all_passes_when_every_tool_is_there(suite: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selection, "TOOLS", {"absent": Tool("python", "bin")})
    result = run(suite, "--require-all", "-k", "not with_the_tool")
    result.assert_outcomes(passed=2, deselected=1)
    assert result.ret == pytest.ExitCode.OK


def test_without_installations_it_leaves_out_the_drills_and_says_how_to_get_them(suite: pytest.Pytester) -> None:
    result = run(suite, "--installations=without")
    result.assert_outcomes(passed=1, deselected=1)
    result.stdout.fnmatch_lines(
        ["Left out: modules that start whole installations or a browser (make test-all runs them): 1; *"]
    )


def test_only_installations_are_the_drills_and_says_so(suite: pytest.Pytester) -> None:
    result = run(suite, "--installations=only")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["Left out: modules that start no installation: 1."])


@pytest.mark.parametrize("named", [[], ["faults"], ["faults/test_drill.py"], ["faults/test_drill.py::test_drill"]])
def test_a_module_that_is_left_out_counts_once_and_only_a_named_one_is_looked_into(
    suite: pytest.Pytester, named: list[str]
) -> None:
    drill = suite.path / "faults" / "test_drill.py"
    drill.write_text("import pathlib\npathlib.Path('seen').touch()\n\ndef test_drill():\n    pass\n")
    result = run(suite, "--installations=without", *named)
    result.stdout.fnmatch_lines(["Left out: modules that start whole installations or a browser (*): 1*"])
    assert suite.path.joinpath("seen").exists() == any(".py" in path for path in named)


def test_a_folder_of_which_a_part_is_taken_is_looked_into(
    suite: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(selection, "INSTALLATIONS", ("rooms/commands/test_demo.py",))
    suite.path.joinpath("rooms", "commands").mkdir(parents=True)
    for name in ("test_demo.py", "test_other.py"):
        suite.path.joinpath("rooms", "commands", name).write_text("def test_it():\n    pass\n")
    run(suite, "rooms").assert_outcomes(passed=2)
    run(suite, "test_some.py", "--installations=without").stdout.no_fnmatch_line("*make test-all*")
    run(suite, "rooms", "--installations=without").assert_outcomes(passed=1)
    run(suite, "rooms", "--installations=only").assert_outcomes(passed=1)


def test_a_drill_may_take_longer_unless_it_says_how_long(suite: pytest.Pytester) -> None:
    suite.makeconftest(LIMITS)
    own = "import pytest\n\n@pytest.mark.timeout(7)\ndef test_own():\n    pass\n"
    suite.path.joinpath("faults", "test_own.py").write_text(own)
    run(suite).stdout.fnmatch_lines_random(["test_drill: 900", "test_own: 7", "test_without_it: usual"])


def test_installations_begin_first_then_drills_that_wait_then_what_takes_long(
    suite: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(selection, "FOLDER_TOOLS", {})
    monkeypatch.setattr(selection, "IN_ORDER", ("browser", "faults", "faults/test_slow.py", "faults/test_calm.py"))
    seconds = {"rooms/test_long.py": 40, "rooms/test_longest.py": 90, "faults/test_calm.py": 200}
    monkeypatch.setattr(selection, "_durations", lambda: seconds)
    for path in (
        "rooms/test_long.py",
        "rooms/test_longest.py",
        "faults/test_calm.py",
        "faults/test_slow.py",
        "browser/test_page.py",
    ):
        suite.path.joinpath(path).parent.mkdir(exist_ok=True)
        suite.path.joinpath(path).write_text("def test_it():\n    pass\n")
    result = run(suite, "--collect-only", "-q", "-k", "not with_the_tool")
    found = [line.partition("::")[0] for line in result.outlines if "::" in line]
    assert found == [
        "browser/test_page.py",
        "faults/test_drill.py",
        "faults/test_slow.py",
        "faults/test_calm.py",
        "rooms/test_longest.py",
        "rooms/test_long.py",
        "test_some.py",
    ]


def test_a_run_records_how_long_its_modules_took(suite: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    recorded = suite.path / "durations.json"
    monkeypatch.setattr(selection, "DURATIONS", recorded)
    before = {"test_some.py": 70, "faults/test_drill.py": 80, "test_gone.py": 90}
    monkeypatch.setattr(selection, "_durations", lambda: before)
    run(suite, "--installations=without")
    assert not recorded.exists()
    run(suite, "--installations=without", "--record-durations")  # nothing of it takes a second
    assert json.loads(recorded.read_text()) == {"faults/test_drill.py": 80}


def test_the_phases_of_a_module_s_tests_are_added_up(suite: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selection, "DURATIONS", suite.path / "durations.json")
    monkeypatch.setattr(selection, "_durations", dict)
    durations = selection.Durations(suite.path)
    for name, when, seconds in (("test_a", "setup", 2.0), ("test_a", "call", 30.25), ("test_b", "call", 0.5)):
        node = f"test_some.py::{name}"
        durations.pytest_runtest_logreport(
            pytest.TestReport(node, (node, 1, name), {}, "passed", None, when, duration=seconds)  # type: ignore[arg-type]
        )
    durations.pytest_sessionfinish()
    assert json.loads(selection.DURATIONS.read_text()) == {"test_some.py": 33}


@pytest.mark.parametrize(
    ("module", "shared"),
    [
        ("tests/browser/test_pages.py", "browser"),
        ("tests/faults/test_bodies.py", "faults"),
        ("tests/faults/test_simulated_hour.py", "tests/faults/test_simulated_hour.py"),
        ("tests/endpoints/management/commands/test_demo.py", "tests/endpoints/management/commands/test_demo.py"),
        ("tests/test_docs.py", "tests/test_docs.py"),
    ],
)
def test_a_worker_gets_the_tests_of_one_installation_together(module: str, shared: str) -> None:
    assert scope(module) == shared


@pytest.mark.parametrize("place", selection.IN_ORDER)
def test_every_place_is_there(place: str) -> None:
    assert (TESTS / place).exists()


def test_the_sentence_names_everything_once() -> None:
    left_out = Counter({"installations": 3, "chromium": 2, "libfaketime": 1, "cluster": 4})
    assert sentence(left_out) == (
        "Left out: modules that start whole installations or a browser (make test-all runs them): 3; "
        "tests that need what is not installed here (apt install chromium libfaketime): 3; "
        "modules that need a Citus cluster (make test-citus): 4."
    )
