"""Django's form of an answer that is given later."""

from __future__ import annotations

from typing import Any

from django.http import StreamingHttpResponse

from config.exchanges import LaterAnswer


class LaterResponse(StreamingHttpResponse):
    """Django's response with a body that is given later; the web server takes `later` itself."""

    def __init__(self, later: LaterAnswer, **options: Any) -> None:
        super().__init__(later, **options)
        self.later = later
