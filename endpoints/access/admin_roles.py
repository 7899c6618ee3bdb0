"""The roles of the admin as Django groups: viewer, editor and owner, each with what the one before may."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from functools import reduce
from itertools import product
from operator import or_
from typing import Final

from django.contrib.auth.models import Group, Permission
from django.core.exceptions import ValidationError
from django.db import transaction
from django.db.models import Q, QuerySet


def _permissions(application: str, models: Collection[str], *actions: str) -> frozenset[str]:
    return frozenset(f"{application}.{action}_{model}" for action, model in product(actions, models))


_EVERYTHING: Final = ("view", "add", "change", "delete")
_SCHEDULES: Final = ("periodictask", "intervalschedule", "crontabschedule", "clockedschedule", "solarschedule")

VIEWER: Final = _permissions("endpoints", ["endpoint", "parameter", "accesstoken"], "view") | _permissions(
    "logsources", ["logsource", "extractedcolumn"], "view"
)
EDITOR: Final = (
    VIEWER
    | _permissions("endpoints", ["endpoint"], "add", "change")
    | _permissions("endpoints", ["parameter"], *_EVERYTHING)  # a parameter is a row of its endpoint's form
    | {"endpoints.run_draft"}
)
OWNER: Final = (
    EDITOR
    | _permissions("endpoints", ["endpoint", "accesstoken", "alert"], *_EVERYTHING)
    | _permissions("logsources", ["logsource", "extractedcolumn"], *_EVERYTHING)
    | _permissions("auth", ["user", "group"], *_EVERYTHING)
    | _permissions("axes", ["accessattempt"], "view", "delete")  # failed logins; to delete one lifts its lock-out
    | _permissions("django_celery_beat", _SCHEDULES, *_EVERYTHING)
)
ROLES: Final = {"viewer": VIEWER, "editor": EDITOR, "owner": OWNER}


@dataclass(frozen=True, slots=True)
class RoleChange:
    """A role that was made, or whose permissions were put back."""

    name: str
    created: bool

    def __str__(self) -> str:
        return f"role {self.name}: {'created' if self.created else 'permissions restored'}"


def keep_roles() -> list[RoleChange]:
    """Make the three groups and give each exactly its permissions; return what was changed. Repeatable.

    Who belongs to a group stays. Raises ValidationError when a permission does not exist: migrations are missing.
    """
    known = {
        f"{permission.content_type.app_label}.{permission.codename}": permission.pk
        for permission in Permission.objects.select_related("content_type")
    }
    missing = sorted(OWNER - known.keys())
    if missing:
        raise ValidationError(f"There is no permission {', '.join(missing)}: run `manage.py migrate` first.")
    changes = []
    with transaction.atomic():
        for name, labels in ROLES.items():
            group, created = Group.objects.get_or_create(name=name)
            wanted = {known[label] for label in labels}
            if created or set(group.permissions.values_list("pk", flat=True)) != wanted:
                group.permissions.set(wanted)
                changes.append(RoleChange(name, created))
    return changes


def permissions_of_roles() -> QuerySet[Permission]:
    """Return the permissions that a role can have: all that the admin's pages ask for."""
    apart = [label.split(".") for label in OWNER]
    is_one = reduce(or_, (Q(content_type__app_label=application, codename=name) for application, name in apart))
    return Permission.objects.filter(is_one).select_related("content_type")
