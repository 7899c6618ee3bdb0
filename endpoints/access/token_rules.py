"""What no access token is issued as, or changed to: one that has ended already, or one whose calls would all fail.

A person who makes such a token has mistyped something, and would learn it only from the refusals that its user gets.
The admin's form and `issue_access_token` ask here, so both refuse the same for the same reason.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime

from django.core.exceptions import ValidationError

from endpoints.models import Endpoint
from endpoints.sql.parameters import DeclaredParameter, UnacceptableValue, coerce_value


def check_expiry(expires_at: datetime | None, *, now: datetime) -> None:
    """Raise ValidationError if the expiry is not in the future; None never comes."""
    if expires_at is not None and expires_at <= now:
        reason = f"This is in the past: it is {now:%Y-%m-%d %H:%M} UTC now. To end an access token, revoke it."
        raise ValidationError({"expires_at": reason})


def check_reach(
    *, every_endpoint: bool, endpoints: Sequence[Endpoint], bound_arguments: Mapping[str, str], may_load: bool
) -> None:
    """Raise ValidationError if there is nothing to do for the access token, or no call that it is bound to can succeed.

    `endpoints` are the chosen ones, which count unless it may call every endpoint. The reasons name parameters and
    never repeat a value.
    """
    if not every_endpoint and not endpoints:
        _check_without_endpoints(bound_arguments, may_load=may_load)
        return
    reached = Endpoint.objects.only("name", "declared_parameters") if every_endpoint else endpoints
    declared = [{each.name: each for each in endpoint.parameters_of_version} for endpoint in reached]
    reasons = list(_unusable(bound_arguments, declared))
    if not reasons and bound_arguments and not any(_takes_all(bound_arguments, each) for each in declared):
        together = f"{_names(bound_arguments)} with these values"
        reasons = [f"No endpoint that it may call has all of {together}, so it could call none."]
    if reasons:
        raise ValidationError({"bound_arguments": reasons})


def _check_without_endpoints(bound_arguments: Mapping[str, str], *, may_load: bool) -> None:
    if not may_load:
        raise ValidationError(
            {"endpoints": "It could do nothing: choose the endpoints that it may call, or let it load rows."}
        )
    if bound_arguments:
        # Left alone, they would look like a limit of what it loads.
        raise ValidationError(
            {"bound_arguments": "They limit calls, and it may call no endpoint. They do not limit what it loads."}
        )


def _unusable(bound_arguments: Mapping[str, str], declared: Sequence[Mapping[str, DeclaredParameter]]) -> Iterator[str]:
    """Yield why an argument can be bound in no call, for each of which this is so."""
    for name, value in bound_arguments.items():
        parameters = [each[name] for each in declared if name in each]
        if not parameters:
            known = _names({known for each in declared for known in each})
            yield f"No endpoint that it may call has a parameter @{name}; they have {known or 'none'}."
        elif None not in (faults := [_fault(parameter, value) for parameter in parameters]):
            yield f"@{name} takes no such value: it {' or '.join(sorted(filter(None, set(faults))))}."


def _takes_all(bound_arguments: Mapping[str, str], declared: Mapping[str, DeclaredParameter]) -> bool:
    return all(name in declared and _fault(declared[name], value) is None for name, value in bound_arguments.items())


def _fault(parameter: DeclaredParameter, value: str) -> str | None:
    try:
        coerce_value(parameter, value)
    except UnacceptableValue as error:
        limits = "; ".join(
            f"{what.replace('_', ' ')}: {', '.join(map(str, limit)) if isinstance(limit, list) else limit}"
            for what, limit in error.constraint.items()
        )
        return f"{error.reason} ({limits})" if limits else error.reason
    return None


def _names(names: Mapping[str, str] | set[str]) -> str:
    return ", ".join(f"@{name}" for name in sorted(names))
