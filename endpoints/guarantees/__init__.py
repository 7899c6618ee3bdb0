"""The guarantees of the log database about sandbox queries, in case one ever gets past the checker."""

from __future__ import annotations

from endpoints.guarantees.definitions import GUARANTEES, Guarantee, SandboxLevel
from endpoints.guarantees.verification import (
    Verdict,
    accepted_level,
    forget_answer,
    keep_asking,
    sandbox_refusal,
    verify_guarantees,
)

__all__ = [
    "GUARANTEES",
    "Guarantee",
    "SandboxLevel",
    "Verdict",
    "accepted_level",
    "forget_answer",
    "keep_asking",
    "sandbox_refusal",
    "verify_guarantees",
]
