"""Progress of long work, on terminals only."""

from __future__ import annotations

import sys
from collections.abc import Callable

Progress = Callable[[int, int, str], None]
"""progress(done, total, label) before each piece of work, and with done == total at the end."""

_WIDTH = 78


def terminal(done: int, total: int, label: str, what: str = "compiling kernels") -> None:
    """Show "compiling kernels 12/40 dot 14x32" in place on stderr; erase it when done == total."""
    stream = sys.stderr
    if stream is None or not stream.isatty():
        return
    text = f"{what} {done + 1}/{total} {label}"[:_WIDTH] if done < total else ""
    stream.write("\r" + text.ljust(_WIDTH) + ("" if text else "\r"))
    stream.flush()
