"""Switches of the environment: a word that is neither yes nor no is an error, not silently a no."""

from __future__ import annotations

import os

from django.core.exceptions import ImproperlyConfigured

_YES = frozenset({"true", "1", "yes", "on"})
_NO = frozenset({"false", "0", "no", "off"})


def switch(name: str, *, default: bool) -> bool:
    """Return whether a setting is on; unset or empty means the default. Raises ImproperlyConfigured."""
    word = os.environ.get(name, "").strip().lower()
    if not word:
        return default
    if word not in _YES | _NO:
        raise ImproperlyConfigured(f"{name} is {word!r}: write true or false.")
    return word in _YES
