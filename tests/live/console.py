"""The operator of an installation under test: one process that prepares, saves, issues and revokes, as told on stdin.

One JSON object a line comes in, `{"do": name, "with": {…}}`, and one goes out: `{"result": …}` once everything the
command stands for has returned, or `{"error": "…"}`. Starting Django for each of them would take
longer than the drills.
"""

from __future__ import annotations

import io
import json
import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from functools import cache
from math import ceil
from typing import Any

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
django.setup()  # before any model is imported

from django.conf import settings  # noqa: E402
from django.contrib.auth import get_user_model  # noqa: E402
from django.contrib.auth.models import Group  # noqa: E402
from django.core.exceptions import ValidationError  # noqa: E402
from django.core.management import call_command  # noqa: E402
from django.db import connections  # noqa: E402
from django.test import Client  # noqa: E402
from django.urls import reverse  # noqa: E402
from django.utils import timezone  # noqa: E402
from django_celery_beat.models import PeriodicTask  # noqa: E402

from endpoints.access import access_tokens  # noqa: E402
from endpoints.access.change_marker import changing  # noqa: E402
from endpoints.access.secrets import NO_LIMIT, OwnLimits  # noqa: E402
from endpoints.alerting.messages import give_secret  # noqa: E402
from endpoints.calling import warming  # noqa: E402
from endpoints.defining import saving, upkeep  # noqa: E402
from endpoints.models import AccessToken, Alert, Endpoint  # noqa: E402
from endpoints.sql.parameters import DeclaredParameter, ParameterType  # noqa: E402
from logsources.models import LogSource  # noqa: E402

SPEECH = sys.stdout
PROJECTS = "acme,globex,initech"


def prepare(*, rows: int, days: float) -> None:
    """Everything a new installation needs, as the demo does it."""
    call_command("migrate", verbosity=0, interactive=False)
    call_command("migrate", database="logs", verbosity=0, interactive=False)
    call_command("harden_logs", stdout=io.StringIO())
    call_command("load_fixtures", stdout=io.StringIO())
    LogSource.objects.filter(retention_days__lt=days).update(retention_days=ceil(days) + 1)
    call_command("generate_logs", rows=rows, days=days, projects=PROJECTS, stdout=io.StringIO(), stderr=io.StringIO())


def save(*, name: str, parameters: Mapping[str, str], settings: Mapping[str, Any]) -> int:
    """Save an endpoint as a new version, making it where there is none, and return the version's number."""
    endpoint = Endpoint.objects.filter(name=name).first() or Endpoint(name=name)
    for field, value in settings.items():
        setattr(endpoint, field, value)
    declared = [
        DeclaredParameter(name=parameter, type=ParameterType(parameter_type), required=True)
        for parameter, parameter_type in parameters.items()
    ]
    return saving.save_endpoint(endpoint, declared).version


def delete(*, name: str) -> None:
    upkeep.delete_endpoints(Endpoint.objects.filter(name=name))


def issue(*, name: str, limits: Mapping[str, int] | None = None, **options: Any) -> str:
    """Issue an access token; unless a drill gives it limits it has none, for a drill's callers are a crowd."""
    own = OwnLimits(
        **(limits if limits is not None else {"calls_at_once": NO_LIMIT, "sandbox_queries_at_once": NO_LIMIT})
    )
    return access_tokens.issue_access_token(name=name, limits=own, **options).secret


def revoke(*, name: str) -> int:
    return access_tokens.revoke_access_tokens(AccessToken.objects.filter(name=name))


def expire(*, name: str) -> None:
    """Let an access token end at this moment, which no page of the admin does."""
    with changing():
        token = AccessToken.objects.get(name=name)
        token.expires_at = timezone.now()
        token.save(update_fields=["expires_at"])


def edit(*, name: str, endpoints: Sequence[str] = (), bound_arguments: Mapping[str, str] | None = None) -> None:
    """Change what an access token may do on its page of the admin, to exactly this."""
    token = AccessToken.objects.get(name=name)
    form = {
        "name": name,
        "endpoints": list(Endpoint.objects.filter(name__in=endpoints).values_list("pk", flat=True)),
        "bound_arguments": "\n".join(f"{argument}={value}" for argument, value in (bound_arguments or {}).items()),
        "calls_at_once": "none",
        "sandbox_queries_at_once": "none",
        "expires": "keep",
    }
    answer = _admin().post(
        reverse("admin:endpoints_accesstoken_change", args=[token.pk]),
        form if endpoints else {**form, "every_endpoint": "on"},
    )
    if answer.status_code != 302:  # the form is shown again, with what is wrong
        raise ValueError(re.sub(r"\s+", " ", " ".join(re.findall(r"(?s)errorlist.*?</ul>", answer.content.decode()))))


def create_operator(*, name: str, role: str, password: str) -> str:
    """Create somebody with this role, log in, and return the session's key."""
    user = get_user_model().objects.create_user(username=name, password=password, is_staff=True)
    user.groups.add(Group.objects.get(name=role))
    client = Client(SERVER_NAME="127.0.0.1")
    client.force_login(user)
    return client.cookies[settings.SESSION_COOKIE_NAME].value


def create_superuser(*, name: str, password: str) -> None:
    get_user_model().objects.create_superuser(username=name, password=password)


@cache
def _admin() -> Client:
    client = Client(SERVER_NAME="127.0.0.1")
    client.force_login(get_user_model().objects.create_superuser(username="operator"))
    return client


def make_alert(*, endpoint: str, **values: Any) -> str:
    """Make an alert of an endpoint and return its secret."""
    alert = Alert(endpoint=Endpoint.objects.get(name=endpoint), **values)
    secret = give_secret(alert)
    alert.full_clean()
    alert.save()
    return secret


def warming_seconds(*, name: str) -> list[float]:
    """Return the intervals at which the scheduler warms this endpoint: none or one."""
    endpoint_id = Endpoint.objects.get(name=name).pk
    tasks = PeriodicTask.objects.filter(enabled=True).select_related("interval")
    return [
        task.schedule.run_every.total_seconds()
        for task in tasks
        if endpoint_id.hex in f"{task.name}{task.args}{task.kwargs}".replace("-", "")
    ]


def warm(*, name: str) -> dict[str, Any]:
    """Do a warm run of the endpoint here and return what it did."""
    return asdict(warming.warm_endpoint(Endpoint.objects.get(name=name).pk))


COMMANDS: Mapping[str, Callable[..., Any]] = {
    command.__name__: command
    for command in (
        prepare,
        save,
        delete,
        issue,
        revoke,
        expire,
        edit,
        create_operator,
        create_superuser,
        make_alert,
        warming_seconds,
        warm,
    )
}


def obey(line: str) -> dict[str, Any]:
    order = json.loads(line)
    connections.close_all()  # the server may have been killed since the last command
    try:
        return {"result": COMMANDS[order["do"]](**order["with"])}
    except ValidationError as error:
        return {"error": f"ValidationError: {error.message_dict}"}
    except Exception as error:  # noqa: BLE001  # whoever gave the order raises it again
        return {"error": f"{type(error).__name__}: {error}"}


def main() -> None:
    sys.stdout = sys.stderr  # what commands print is not an answer
    for line in sys.stdin:
        SPEECH.write(json.dumps(obey(line)) + "\n")
        SPEECH.flush()


if __name__ == "__main__":
    main()
