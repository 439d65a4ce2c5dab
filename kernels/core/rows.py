"""The kernels that run others: for the narrowest tier only, which any CPU has. Their records are in `slots.py`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..isa.tiers import TIERS, Tier
from .slots import CALL, PARTS, PROGRAM, TEAM
from .table import Row


def _narrowest(tier: Tier, params: Mapping[str, Any]) -> bool:
    return tier is TIERS[0]


ROWS = (
    Row("execute", "core.execute", "execute", PROGRAM, exists=_narrowest),
    Row("call", "core.execute", "call_from_python", CALL, exists=_narrowest),
    Row("parts", "core.parts", "parts", PARTS, exists=_narrowest),
    Row("team", "core.team", "team", TEAM, exists=_narrowest),
)
