"""The list of seeded faults, `rooms/*.toml`: each is one small change of the product, and the test that must fail.

Pure: reads the list and changes texts. `python -m tests.seeded_faults` applies the faults, one after the other.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable
from dataclasses import dataclass, fields
from pathlib import Path

PROJECT = Path(__file__).resolve().parent.parent.parent
ROOMS = Path(__file__).resolve().parent / "rooms"


@dataclass(frozen=True)
class Fault:
    """A change of `file` that users would notice, as said in `harm`; `test` is the pytest node that must notice it."""

    room: str
    name: str
    harm: str
    file: str
    old: str
    new: str
    test: str

    @property
    def title(self) -> str:
        return f"{self.room}/{self.name}"

    @property
    def test_file(self) -> str:
        return self.test.partition("::")[0]

    @property
    def test_function(self) -> str:
        return self.test.rpartition("::")[2].partition("[")[0]

    def apply(self, text: str) -> str:
        """Return the text with the fault in it. Raises ValueError unless the old text is there exactly once."""
        found = text.count(self.old)
        if found != 1:
            raise ValueError(f"the old text is {found} times in {self.file}, not once")
        return text.replace(self.old, self.new)


def read_faults(rooms: Path = ROOMS) -> list[Fault]:
    """Return every fault of the list, room by room. Raises ValueError for an entry with other keys than it needs."""
    wanted = {field.name for field in fields(Fault)} - {"room"}
    faults = []
    for path in sorted(rooms.glob("*.toml")):
        for entry in tomllib.loads(path.read_text(encoding="utf-8"))["fault"]:
            if entry.keys() != wanted:
                raise ValueError(f"{path.name}: {entry.get('name', 'an entry')} needs {', '.join(sorted(wanted))}")
            faults.append(Fault(room=path.stem, **entry))
    return faults


def selected(faults: Iterable[Fault], words: Iterable[str]) -> list[Fault]:
    """Return the faults whose room or name contains one of the words; all of them without words."""
    wanted = list(words)
    return [fault for fault in faults if not wanted or any(word in fault.title for word in wanted)]
