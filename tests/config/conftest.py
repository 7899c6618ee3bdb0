from __future__ import annotations

from tests.config.installations import root, shared, shared_root

__all__ = ["root", "shared", "shared_root"]
