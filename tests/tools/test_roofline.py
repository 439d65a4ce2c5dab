"""What bench/roofline.py prints."""

from typing import Any

import pytest

from bench import roofline
from fastgraph.kernels.isa.tiers import BY_NAME
from fastgraph.tools import peaks
from tests.amx_trap import AMX, needs_amx, tiles
from tests.kernels.test_amx_real import needs_bf16, needs_f16


def test_the_roofline_is_printed(capsys: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, figure in (("peak_macs", 7e10), ("peak_macs_int8", 3e11), ("peak_macs_bf16", 1e11)):
        monkeypatch.setattr(peaks, name, lambda *_, figure=figure: figure)
    monkeypatch.setattr(roofline, "bandwidth", lambda *_: 2e10)
    roofline.main(BY_NAME["avx512vnni"])
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["f32", "70.0", "GMAC/s"] in lines and ["bytes", "300.0", "GMAC/s"] in lines
    assert ["memory,", "1.00", "MiB", "20.0", "GB/s"] in lines


@needs_amx
@pytest.mark.parametrize("element", ["", pytest.param("bf16", marks=needs_bf16), pytest.param("f16", marks=needs_f16)])
def test_tiles_have_a_peak(element: str) -> None:
    with tiles():
        assert 0 < peaks.peak_macs_tiles(AMX, element) < 1e14
