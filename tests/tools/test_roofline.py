"""What bench/roofline.py prints."""

from __future__ import annotations

from typing import Any

import pytest

from bench import roofline
from fastgraph.kernels.isa.tiers import BY_NAME


def test_the_roofline_is_printed(capsys: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, figure in (("peak_macs", 7e10), ("peak_macs_int8", 3e11), ("bandwidth", 2e10)):
        monkeypatch.setattr(roofline, name, lambda *_, figure=figure: figure)
    roofline.main(BY_NAME["avx512vnni"])
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["f32", "70.0", "GMAC/s"] in lines and ["u8", "by", "s8", "300.0", "GMAC/s"] in lines
    assert ["memory,", "1.00", "MiB", "20.0", "GB/s"] in lines
