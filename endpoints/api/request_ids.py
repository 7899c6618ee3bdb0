"""The id of a request: the one that the caller sent if it is safe to echo and log, otherwise a new one."""

from __future__ import annotations

import re
import uuid
from collections.abc import MutableMapping
from typing import Any, Final

# The ids that a caller may choose: they are echoed in a header and written to the log.
_REQUEST_ID: Final = re.compile(r"[A-Za-z0-9._:/+=@-]{1,128}", re.ASCII)
_NAME: Final = "HTTP_X_REQUEST_ID"


def settle_request_id(environ: MutableMapping[str, Any]) -> str:
    """Decide on the id of a request, keep it in its environ (WSGI, PEP 3333) and return it."""
    sent = environ.get(_NAME, "")
    request_id = sent if _REQUEST_ID.fullmatch(sent) else str(uuid.uuid4())
    environ[_NAME] = request_id
    return str(request_id)
