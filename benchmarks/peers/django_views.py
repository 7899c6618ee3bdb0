"""What a user of Django would write by hand: the statement through Django's cursor and REST framework's JSONRenderer.

And a bare view of constant bytes, the limit of Django on this web server. A project of its own, served by granian as
`benchmarks.peers.django_views:application`; PEER_DATABASE_URL, PEER_STATEMENT and PEER_ARGUMENTS name the work,
PEER_BODY the file of the constant bytes. With PEER_TUNED=1 connections are kept and statements prepared on the server;
without, the database is set up as Django's documentation begins.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import django
import environ
from django.conf import settings
from django.core.wsgi import get_wsgi_application
from django.db import connection
from django.http import HttpRequest, HttpResponse
from django.urls import path

TUNED = {"CONN_MAX_AGE": None, "OPTIONS": {"server_side_binding": True, "prepare_threshold": 5}}
settings.configure(
    DEBUG=False,
    SECRET_KEY="only-for-a-benchmark",
    ALLOWED_HOSTS=["127.0.0.1"],
    ROOT_URLCONF=__name__,
    MIDDLEWARE=[],
    INSTALLED_APPS=["rest_framework"],
    REST_FRAMEWORK={"UNAUTHENTICATED_USER": None},
    USE_TZ=True,
    DATABASES={
        "default": {
            **environ.Env.db_url_config(os.environ["PEER_DATABASE_URL"]),
            **(TUNED if os.environ["PEER_TUNED"] == "1" else {}),
        }
    },
)
django.setup()

from rest_framework.renderers import JSONRenderer  # noqa: E402  # its module asks for the settings

STATEMENT = os.environ["PEER_STATEMENT"]
ARGUMENTS = {
    f"argument_{number}": value for number, value in enumerate(json.loads(os.environ["PEER_ARGUMENTS"]), start=1)
}
BODY = Path(os.environ["PEER_BODY"]).read_bytes()


def rows(request: HttpRequest) -> HttpResponse:
    with connection.cursor() as cursor:
        cursor.execute(STATEMENT, ARGUMENTS)
        names = [column.name for column in cursor.description]
        result = [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]
    for row in result:  # Django hands jsonb over as text
        row["metadata"] = json.loads(row["metadata"])
    return HttpResponse(JSONRenderer().render({"result": result}), content_type="application/json")


def constant(request: HttpRequest) -> HttpResponse:
    return HttpResponse(BODY, content_type="application/json; charset=utf-8")


urlpatterns = [path("rows", rows), path("constant", constant)]
application = get_wsgi_application()
