"""Endpoints as files: export of all into a folder, and import of files, all together or none."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import unified_diff
from enum import StrEnum
from pathlib import Path
from typing import Final

from django.core.exceptions import ValidationError
from django.db import transaction

from endpoints.access.change_marker import changing
from endpoints.defining.drafts import Draft, Position, Problem, check_draft
from endpoints.defining.endpoint_files import (
    EndpointFileError,
    FileLines,
    FileProblem,
    as_in_file,
    find_lines,
    read_endpoint_file,
    write_endpoint_file,
)
from endpoints.defining.saving import save_endpoint
from endpoints.definition import Definition
from endpoints.errors import EndpointError
from endpoints.models import Endpoint

FILE_SUFFIX: Final = ".sql"


class ImportOutcome(StrEnum):
    """The result of importing a file."""

    CREATED = "created"
    CHANGED = "changed"
    UNCHANGED = "unchanged"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class ImportResult:
    """The result of importing one file, or in a dry run what it would be.

    `version` is the number that was saved; None in a dry run, and if one file was refused, because then none is saved.
    """

    file: str
    name: str
    outcome: ImportOutcome
    version: int | None = None
    reasons: tuple[str, ...] = ()
    before: str = field(default="", repr=False)
    after: str = field(default="", repr=False)

    @property
    def told(self) -> str:
        """The outcome in words; of a change that is not saved, what it would be."""
        is_change = self.outcome in (ImportOutcome.CREATED, ImportOutcome.CHANGED)
        if self.version is not None:
            return f"{self.outcome} as version {self.version}"
        return f"would be {self.outcome}" if is_change else self.outcome.value

    @property
    def difference(self) -> tuple[str, ...]:
        """The change as a unified diff, without line ends; () if nothing changes or the file is refused."""
        if self.outcome is ImportOutcome.REFUSED:
            return ()
        old, new = self.before.splitlines(), self.after.splitlines()
        return tuple(unified_diff(old, new, f"stored/{self.name}", self.file, lineterm=""))


def exported_file(endpoint: Endpoint) -> tuple[str, str]:
    """Return name and text of the file of this endpoint."""
    return f"{endpoint.name}{FILE_SUFFIX}", write_endpoint_file(_as_file(endpoint))


def export_endpoints(folder: Path) -> list[Path]:
    """Write one file for each endpoint and return their paths; other files there stay. Raises OSError."""
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for endpoint in Endpoint.objects.prefetch_related("parameters"):
        name, text = exported_file(endpoint)
        path = folder / name
        path.write_text(text, encoding="utf-8", newline="\n")
        written.append(path)
    return written


def read_import_folder(folder: Path) -> dict[str, bytes]:
    """Return the contents of its .sql files, by name. Raises OSError."""
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir()) if path.suffix == FILE_SUFFIX}


def import_endpoints(folder: Path, *, dry_run: bool) -> list[ImportResult]:
    """Import the .sql files of a folder, as `import_endpoint_files` does. Raises OSError."""
    return import_endpoint_files(read_import_folder(folder), dry_run=dry_run)


def import_endpoint_files(contents: Mapping[str, bytes], *, dry_run: bool) -> list[ImportResult]:
    """Make each file the newest version of the endpoint it names, and return the result of each.

    Every file is read and checked on the log database before one is saved; if one is refused, none is saved.
    Endpoints that no file names stay.
    """
    planned = [_plan(file, content) for file, content in contents.items()]
    planned = _refuse_repeated_names(planned)
    results = [plan.result for plan in planned]
    if dry_run or any(result.outcome is ImportOutcome.REFUSED for result in results):
        return results
    try:
        with changing(), transaction.atomic():
            return [_save(plan) for plan in planned]
    except _RefusedWhileSaving as refusal:
        # Between check and save somebody took the name, or the log database went down; the transaction is undone.
        reasons = _reasons(refusal.error)
        return [_refused(result, reasons) if result.file == refusal.file else result for result in results]


@dataclass(frozen=True, slots=True)
class _Plan:
    result: ImportResult
    content: Definition | None = None


class _RefusedWhileSaving(Exception):
    def __init__(self, file: str, error: ValidationError) -> None:
        super().__init__(file)
        self.file = file
        self.error = error


def _plan(file: str, content: bytes) -> _Plan:
    result = ImportResult(file=file, name="", outcome=ImportOutcome.REFUSED)
    try:
        text = content.decode("utf-8")
        wanted = read_endpoint_file(text)
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        return _Plan(_refused(result, [FileProblem(line, f"the file is not UTF-8: {error.reason}")]))
    except EndpointFileError as error:
        return _Plan(_refused(result, error.problems))
    stored = Endpoint.objects.filter(name=wanted.name).first()
    before = _as_file(stored) if stored else None
    outcome = ImportOutcome.CHANGED if stored else ImportOutcome.CREATED
    if before == wanted:
        outcome = ImportOutcome.UNCHANGED
    result = ImportResult(
        file=file,
        name=wanted.name,
        outcome=outcome,
        before=write_endpoint_file(before) if before else "",
        after=write_endpoint_file(wanted),
    )
    problems = [] if outcome is ImportOutcome.UNCHANGED else _faults(wanted, text)
    return _Plan(_refused(result, problems) if problems else result, wanted)


def _refuse_repeated_names(planned: Sequence[_Plan]) -> list[_Plan]:
    """A second file of the same endpoint would overwrite the first."""
    names = Counter(plan.result.name for plan in planned if plan.result.name)
    return [
        _Plan(_refused(plan.result, [f"another file also names the endpoint {plan.result.name}"]))
        if names[plan.result.name] > 1
        else plan
        for plan in planned
    ]


def _faults(wanted: Definition, text: str) -> list[FileProblem]:
    """Return why the endpoint cannot be saved: faults of the SQL at their lines, the others by the setting's name."""
    endpoint = _drafted(wanted)
    problems: list[Problem] = []
    try:
        endpoint.full_clean()
    except ValidationError as error:
        problems += [Problem(name, message) for name, messages in error.message_dict.items() for message in messages]
    try:
        problems += check_draft(Draft.of_endpoint(endpoint, wanted.parameters)).problems
    except EndpointError as error:
        return [FileProblem(None, f"the log database could not check the query. {error.message}")]
    lines = find_lines(text)
    # Both check single settings: a problem that both find is reported once.
    found = {(one.field, one.message): _in_file(one, lines) for one in problems if one.is_error}
    return sorted(found.values(), key=lambda problem: (problem.line or 0, problem.column or 0))


def _in_file(problem: Problem, lines: FileLines) -> FileProblem:
    if problem.field == "sql":
        place = problem.place or Position(1, 1)
        line, column = lines.of_sql(place.line, place.column)
        return FileProblem(line, problem.message, column)
    names_its_place = problem.field in ("__all__", "parameters")
    return FileProblem(None, problem.message if names_its_place else f"{problem.field}: {problem.message}")


def _save(plan: _Plan) -> ImportResult:
    if plan.content is None or plan.result.outcome is ImportOutcome.UNCHANGED:
        return plan.result
    endpoint = _drafted(plan.content)
    endpoint._change_reason = "imported from a file"  # type: ignore[attr-defined]  # simple_history reads it
    try:
        saved = save_endpoint(endpoint, plan.content.parameters)
    except ValidationError as error:
        raise _RefusedWhileSaving(plan.result.file, error) from error
    return replace(plan.result, version=saved.version)


def _drafted(wanted: Definition) -> Endpoint:
    endpoint = Endpoint.objects.filter(name=wanted.name).first() or Endpoint()
    endpoint.take(wanted)
    return endpoint


def _as_file(endpoint: Endpoint) -> Definition:
    return as_in_file(Definition.of(endpoint, (row.declared() for row in endpoint.parameters.all())))


def _refused(result: ImportResult, reasons: Iterable[object]) -> ImportResult:
    return replace(result, outcome=ImportOutcome.REFUSED, reasons=tuple(map(str, reasons)))


def _reasons(error: ValidationError) -> list[str]:
    if not hasattr(error, "error_dict"):
        return error.messages
    return [
        message if name in ("__all__", "parameters", "sql") else f"{name}: {message}"
        for name, messages in error.message_dict.items()
        for message in messages
    ]
