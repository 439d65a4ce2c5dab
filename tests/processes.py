"""Python in processes of its own."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]


def python(*arguments: Any, cwd: Path = ROOT, timeout: float = 600, **env: str | None) -> str:
    """What Python prints for these arguments; its failure is the test's. env: variables beside those of this process,
    None for such as it does not have.
    """
    variables = {name: text for name, text in (os.environ | env).items() if text is not None}
    command = [sys.executable, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=cwd, env=variables, timeout=timeout)
    assert done.returncode == 0, done.stderr[-5000:]
    return done.stdout
