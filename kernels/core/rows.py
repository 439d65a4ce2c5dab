"""The kernels that run the others. Their records are in `slots.py`."""

from .slots import CALL, PROGRAM, TEAM
from .table import Row

ROWS = (
    Row("execute", "core.execute", "execute", params=(), args=PROGRAM),
    Row("call", "core.execute", "call_from_python", params=(), args=CALL),
    Row("team", "core.team", "team", params=(), args=TEAM),
)
