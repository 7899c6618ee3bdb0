"""Metadata in stored form: every object is in an array of one, and names with dots are objects. Pure.

    {"request": {"path": "/x"}, "log.level": "error"}  ->  {"request": [{"path": "/x"}], "log": [{"level": "error"}]}

Paths into metadata are written with dots, so `log.level` would otherwise find nothing. Every form of load uses this.
A name joins the object that is in its place; where that is impossible, it keeps its dots:

    {"log": "x", "log.level": "error"}        the place of its object is taken by a value, or by an array of several
    {"log": {"level": "x"}, "log.level": …}   its own place is taken: names without dots come first, then in order
    "a..b", ".a", "a.b.c.d.e.f.g.h.i"         an empty part, more than 8 parts, more than 200 characters

Names in inner objects come before those of outer ones. A row that is in stored form already does not change.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

# Names have up to five parts; one of a thousand parts would become a thousand objects.
_MAX_PARTS: Final = 8
_MAX_DOTTED_CHARACTERS: Final = 200
# Of one row, or one value of OTLP: each may become seven objects, of two kilobytes. The names behind keep their dots.
MAX_DOTTED_NAMES: Final = 10_000

_MOST_NAMES: Final = 4096  # that are remembered

Members = dict[str, Any]


class StoredMetadata(list[Members]):
    """Metadata that is in stored form already; its first object belongs to the row, and may get the project."""


# `__class__ is` and not isinstance(): these two run for every value of every row, and JSON yields no subclasses.
def wrap_object(members: Members, dotted: list[Members]) -> Members:
    """Return an object with its inner objects in arrays; `dotted` gets those objects that have names with dots."""
    found = members.copy()
    for name, value in members.items():
        if value.__class__ is str:  # most are
            continue
        if value.__class__ is dict:
            found[name] = [wrap_object(value, dotted)]
        elif value.__class__ is list:
            found[name] = wrap_items(value, dotted)
    if not _undotted.issuperset(found) and _has_dotted_names(found):
        dotted.append(found)
    return found


def wrap_items(items: list[Any], dotted: list[Members]) -> list[Any]:
    """Return an array with its objects wrapped."""
    return [
        wrap_object(item, dotted)
        if item.__class__ is dict
        else wrap_items(item, dotted)
        if item.__class__ is list
        else item
        for item in items
    ]


# Names that are known to have no dot, because looking into every name of every row would take longer.
_undotted: set[str] = set()


def _has_dotted_names(members: Iterable[str]) -> bool:
    new = [name for name in members if name not in _undotted]
    if len(_undotted) + len(new) > _MOST_NAMES:
        _undotted.clear()
    _undotted.update(name for name in new[:_MOST_NAMES] if "." not in name and len(name) <= _MAX_DOTTED_CHARACTERS)
    return any("." in name for name in new)


def stored(value: Any) -> Any:
    """Return any value in stored form."""
    if not isinstance(value, (dict, list)):
        return value
    dotted: list[Members] = []
    found = wrap_items([value] if isinstance(value, dict) else value, dotted)
    expand_names(dotted)
    return found


# --- Names with dots --------------------------------------------------------------------------------------------------
# Where a name belongs: the path of its object, and its name there. Filled as names come, and begun anew when full.
_places: dict[str, tuple[str, str]] = {}


def expand_names(dotted: Iterable[Members]) -> None:
    """Give the names with dots in these objects, which are wrapped, objects of their own. Changes the objects."""
    left = MAX_DOTTED_NAMES
    for members in dotted:
        names = [name for name in members if "." in name][:left]
        left -= len(names)
        objects = {"": members}  # by path
        for name in names:
            outer, last = _places.get(name) or _place(name)
            inner = objects.get(outer) or _object_at(objects, outer)
            if inner is not None and last not in inner:
                inner[last] = members.pop(name)


def _place(name: str) -> tuple[str, str]:
    if len(name) > _MAX_DOTTED_CHARACTERS:
        return "", name
    parts = name.split(".")
    if len(_places) >= _MOST_NAMES:
        _places.clear()
    place = (".".join(parts[:-1]), parts[-1]) if len(parts) <= _MAX_PARTS and all(parts) else ("", name)
    _places[name] = place
    return place


def _object_at(objects: dict[str, Members], path: str) -> Members | None:
    """Return the object for a path, a new one if it is missing; None if something else is in its place."""
    outer, _, last = path.rpartition(".")
    # `or`, because only an object that is still empty is looked for again: the outermost one is never empty here.
    members = objects.get(outer) or _object_at(objects, outer)
    if members is None:
        return None
    found = members.get(last)
    if found is None and last not in members:
        inner = objects[path] = {}
        members[last] = [inner]
        return inner
    if found.__class__ is not list or len(found) != 1 or found[0].__class__ is not dict:
        return None
    return objects.setdefault(path, found[0])
