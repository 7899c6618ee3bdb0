"""The environment's values as settings: one that cannot be read is an error, never quietly something else."""

from __future__ import annotations

import environ
from django.core.exceptions import ImproperlyConfigured

_YES = frozenset({"true", "1", "yes", "on"})
_NO = frozenset({"false", "0", "no", "off"})


class Environment(environ.Env):
    """django-environ, but for switches: it takes every word that it does not know for false."""

    def switch(self, name: str, *, default: bool) -> bool:
        """Return whether a setting is on; unset and empty are the default. Raises ImproperlyConfigured."""
        word = self.str(name, default="").strip().lower()
        if not word:
            return default
        if word not in _YES | _NO:
            raise ImproperlyConfigured(f"{name} is {word!r}: write true or false.")
        return word in _YES
