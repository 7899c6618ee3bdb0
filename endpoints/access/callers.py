"""Who may call an endpoint."""

from __future__ import annotations

from dataclasses import dataclass

from django.db.models import F, Q
from django.utils import timezone

from endpoints.models import AccessToken, Endpoint


@dataclass(frozen=True, slots=True)
class Callers:
    """The access tokens that may call an endpoint, the last used first, and how many might if it were not for…"""

    access_tokens: tuple[AccessToken, ...]
    invalid: int  # …their revocation or expiry
    bound_elsewhere: int  # …a bound argument for which the endpoint has no parameter


def callers_of(endpoint: Endpoint) -> Callers:
    """Return who may call the endpoint at this moment."""
    now = timezone.now()
    declared = {parameter.name for parameter in endpoint.parameters_of_version}
    reaching = AccessToken.objects.filter(Q(every_endpoint=True) | Q(endpoints=endpoint)).distinct()
    ordered = list(reaching.order_by(F("last_used_at").desc(nulls_last=True), "name", "pk"))
    valid = [token for token in ordered if token.is_valid_at(now)]
    callable_by = tuple(token for token in valid if declared.issuperset(token.bound_arguments))
    return Callers(callable_by, invalid=len(ordered) - len(valid), bound_elsewhere=len(valid) - len(callable_by))
