"""The page that shows the OpenAPI document, to read and to try.

The page itself holds nothing of the installation: its script fetches the document as the reader, with the admin's
session or with the access token that the reader types, which stays in the page and is forgotten with it.
"""

from __future__ import annotations

from typing import Final

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.csrf import csrf_exempt

from endpoints.api.replies import error_response
from endpoints.errors import MethodNotAllowed

METHODS: Final = ("GET", "HEAD")
# Texts of endpoints and the answers to calls come into this page; none of them may become a script, or leave it.
# data: images are those in the style sheet of Swagger UI, which also writes styles into attributes.
DOCS_POLICY: Final = "; ".join(
    (
        "default-src 'self'",
        "style-src 'self' 'unsafe-inline'",
        "img-src 'self' data:",
        "object-src 'none'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    )
)


@csrf_exempt  # another method is a 405 in the one error body; nothing changes here
def docs_page(request: HttpRequest) -> HttpResponse:
    """Return the page, the same for everybody."""
    if request.method not in METHODS:
        return error_response(request, MethodNotAllowed(str(request.method), METHODS))
    response = render(request, "endpoints/docs.html")
    response["Content-Security-Policy"] = DOCS_POLICY
    return response
