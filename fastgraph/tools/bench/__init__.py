"""`fastgraph bench`: engines measured in turns, and what is made of it."""

from __future__ import annotations

from ..environment import invocation, machine
from .cold import cold_start
from .comparison import NotMeasurable, agrees, compare, geomean, refuse
from .rounds import measure, pinned
from .streams import throughput
from .text import LEGEND, sheet, text

__all__ = (
    "LEGEND", "NotMeasurable", "agrees", "cold_start", "compare", "geomean", "invocation", "machine", "measure",
    "pinned", "refuse", "sheet", "text", "throughput",
)  # fmt: skip
