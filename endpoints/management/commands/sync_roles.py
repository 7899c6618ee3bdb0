"""Create the roles of the admin and give each its permissions."""

from __future__ import annotations

from typing import Any

from endpoints.access.admin_roles import keep_roles
from endpoints.management.failures import one_line_failures
from logsources.management.own_command import OwnCommand


class Command(OwnCommand):
    help = (
        "Create the groups viewer, editor and owner and give each exactly the permissions of its role; their "
        "members stay. load_fixtures does the same."
    )
    examples = ("python manage.py sync_roles",)

    def handle(self, *args: Any, **options: Any) -> None:
        with one_line_failures():
            changes = keep_roles()
        for change in changes:
            self.stdout.write(str(change))
        if not changes:
            self.stdout.write("The roles have the right permissions.")
