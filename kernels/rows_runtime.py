"""The kernels that run the others. Their records are laid out in `record.py`."""

from .record import PROGRAM, TEAM
from .table import Row

ROWS = (
    Row("execute", "execute", "execute", params=(), args=PROGRAM),
    Row("team", "execute", "team", params=(), args=TEAM),
)
