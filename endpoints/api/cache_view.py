"""DELETE /api/endpoints/cache/<name>: remove an endpoint's cached results."""

from __future__ import annotations

from typing import cast

import orjson
from django.http import HttpResponse
from rest_framework.request import Request
from rest_framework.views import APIView

from endpoints.access.secrets import Caller
from endpoints.api.replies import JSON
from endpoints.calling.purging import purge_cache


class CacheView(APIView):
    """Purge by UUID or name, with an access token that may purge."""

    schema = None
    http_method_names = ["delete"]

    def delete(self, request: Request, reference: str) -> HttpResponse:
        purged = purge_cache(reference, caller=cast(Caller, request.user))
        body = {"result": [{"endpoint": purged.endpoint_name, "removed": purged.results}]}
        return HttpResponse(orjson.dumps(body), content_type=JSON, headers={"Cache-Control": "no-store"})
