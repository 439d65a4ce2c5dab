"""Write the parts of pages that are made from the sources: `python -m docs`."""

from __future__ import annotations

from docs import coverage, imports
from docs.pages import ARCHITECTURE, put

put("coverage", coverage.text())
put("imports", f"```mermaid\n{imports.picture()}\n```", ARCHITECTURE)
