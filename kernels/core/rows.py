"""The kernels that run the others. Their records are laid out in `record.py`."""

from .slots import CALL, PROGRAM, TEAM
from .table import Row

ROWS = (
    Row("execute", "core.execute", "execute", params=(), args=PROGRAM),
    Row("call", "core.execute", "call_from_python", params=(), args=CALL),
    Row("team", "core.execute", "team", params=(), args=TEAM),
)
