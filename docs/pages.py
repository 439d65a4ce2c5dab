"""Parts of pages that scripts write: what stands between `<!-- NAME -->` and `<!-- /NAME -->`."""

from __future__ import annotations

import re
from pathlib import Path

README = Path(__file__).parents[1] / "README.md"


def part(name: str, page: Path = README) -> str:
    """What stands there now."""
    return _find(name, page.read_text(encoding="utf-8"))[2]


def put(name: str, text: str, page: Path = README) -> None:
    """Write `text` there."""
    whole = page.read_text(encoding="utf-8")
    found = _find(name, whole)
    page.write_text(f"{whole[: found.start(2)]}{text.strip()}\n{whole[found.end(2) :]}", encoding="utf-8")


def _find(name: str, whole: str) -> re.Match[str]:
    found = re.search(rf"(<!-- {name} -->\n)(.*?)(<!-- /{name} -->)", whole, re.DOTALL)
    assert found is not None, f"no part {name}"
    return found
