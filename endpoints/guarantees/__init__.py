"""What the log database guarantees about sandbox queries, should their checker ever be got round."""

from __future__ import annotations

from endpoints.guarantees.catalogue import GUARANTEES, Guarantee, SandboxLevel
from endpoints.guarantees.verification import (
    Verdict,
    accepted_level,
    forget_answer,
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
    "sandbox_refusal",
    "verify_guarantees",
]
