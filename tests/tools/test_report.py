"""Pages with charts: whole HTML, nothing from elsewhere, names of all kinds, the numbers that were measured."""

import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

import fastgraph as fg
from fastgraph.cli import main
from fastgraph.demo import MODEL
from fastgraph.svg import Axis, distributions
from fastgraph.tools import profile as profiles
from fastgraph.tools import report as reports
from fastgraph.tools.graph_svg import lanes_of, node_times, spans
from fastgraph.tools.peaks import MachinePeaks
from fastgraph.tools.profile import profile
from fastgraph.tools.report import Measured, report
from tests.nets import Net

MACHINE = MachinePeaks({"f32": 1e10, "bytes": 4e10}, ((1 << 14, 1e11), (1 << 17, 5e10), (1 << 20, 1e10)))
HOSTILE = '</script><script>alert(1)</script><img src=x onerror="a()">&\x1b'
VOID = {"meta"}


@pytest.fixture(autouse=True)
def known_machine(monkeypatch: Any) -> None:
    for module in (profiles, reports):
        monkeypatch.setattr(module, "machine_peaks", lambda *_: MACHINE)


class Page(HTMLParser):
    """What a page has; elements have to be closed in order."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.feed(text)
        self.close()
        assert not self.open, self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open and self.open.pop() == tag, tag

    def handle_data(self, data: str) -> None:
        self.words.append(data)


def alone(text: str) -> Page:
    """The page, once nothing in it is fetched from elsewhere or run."""
    page = Page(text)
    names = {tag for tag, _ in page.tags}
    assert not names & {"script", "link", "img", "iframe", "object", "embed", "base"}
    for _, attrs in page.tags:
        assert not {"src", "href", "xlink:href", "srcset"} & set(attrs) and not any(a.startswith("on") for a in attrs)
    assert not re.search(r"url\(|@import|https?://", text)
    return page


def measured(net: Any = None, result: Any = None, name: str = "net") -> Measured:
    plan = (fg.load(MODEL, threads=1) if net is None else net.load()).plan
    return Measured(name, plan, profile(plan, 2, lambda *_: MACHINE), result)


def test_a_network() -> None:
    each = measured()
    page = alone(report([each], {"cpu": "a CPU"}, "1.0"))
    said = " ".join(page.words)
    for title in ("Time by operator", "Time by step", "Roofline", "Arena", "Graph", "Environment", "a CPU"):
        assert title in said
    for row in each.rows:
        assert f"{row['us']:.2f}" in said
    dots = [attrs for tag, attrs in page.tags if tag == "circle"]
    assert len(dots) == sum(row["gmacs"] is not None for row in each.rows)


def test_engines_and_latencies() -> None:
    own = {"name": "fastgraph", "version": "1", "calls": 9, "p50_ms": 1.0, "p99_ms": 2.0}
    own |= {"quantiles_ms": [1 + 0.01 * i for i in range(101)]}
    peer = {"name": "other", "version": "2", "calls": 9, "p50_ms": 2.0, "p99_ms": 3.0, "ratio": 0.5}
    peer |= {"ratio_interval": (0.45, 0.55), "difference": 1.0, "agrees": False, "samples_ns": [[2e6, 2e6], [3e6]]}
    gone = {"name": "third", "unavailable": "no <b>such</b> operator"}
    quiet = {"noisy": False, "watched": True, "rounds": 9, "disturbed": 0, "shared": 4, "kept": "rounds"}
    result = {"isa": "avx2", "threads": 1, "rounds": 5, "engines": [own, peer, gone], "disturbance": quiet}
    said = " ".join(alone(report([measured(result=result)], {}, "1")).words)
    for text in (
        "0.500",
        "0.450 to 0.550",
        "DISAGREES",
        "no <b>such</b> operator",
        "share of calls",
        "other: 2",
        "in 4 of 9 rounds",
    ):
        assert text in said, text


def test_hostile_names() -> None:
    net = Net()
    net.output(net("Relu", net("Add", net.input(HOSTILE, (2, 3)), [1.0, 2.0, 3.0])))
    text = report([measured(net, name=HOSTILE)], {"cpu": HOSTILE}, HOSTILE)
    alone(text)
    assert "\x1b" not in text and "alert(1)" in text
    alone(f"<html>{net.load()._repr_html_()}</html>")


def test_a_net_without_products_or_steps() -> None:
    net = Net()
    net.output(net("Relu", net.input("x", (2, 3))))
    assert "Roofline" not in report([measured(net)], {}, "1")
    empty = Net()
    empty.output(empty("Identity", empty.input("x", (2, 3))))
    alone(report([measured(empty)], {}, "1"))


def test_many_networks(tmp_path: Path) -> None:
    file = tmp_path / "a.html"
    assert main(["report", str(MODEL), str(MODEL), "--runs", "1", "-o", str(file)]) == 0
    page = alone(file.read_text(encoding="utf-8"))
    assert sum(tag == "h1" for tag, _ in page.tags) == 3
    assert main(["report", str(MODEL), "-o", str(tmp_path / "none" / "a.html")]) == 2


def test_the_graph_s_times_are_the_profile_s() -> None:
    each = measured()
    assert each.plan is not None
    assert sum(node_times(each.plan, each.rows).values()) == pytest.approx(sum(row["us"] for row in each.rows))


def test_lanes_do_not_overlap() -> None:
    plan = fg.load(MODEL, threads=1).plan
    reach = spans(plan.graph.nodes)
    lanes = lanes_of(reach)
    assert lanes  # there is a residual connection
    for a, lane in lanes.items():
        for b in (other for other in lanes if other > a and lanes[other] == lane):
            assert b >= reach[a][-1]


def test_ticks_are_round_and_within() -> None:
    for low, high in ((0, 1), (3.2, 3.9), (0, 12345), (1e-6, 3e-6)):
        found = Axis(low, high, 0, 100).ticks()
        assert 2 <= len(found) <= 10 and all(low - 1e-9 * high <= each <= high * (1 + 1e-9) for each in found)
    assert Axis(1, 1000, 0, 100, True).ticks() == pytest.approx([1, 10, 100, 1000])
    assert distributions([("none", [])], "ms") == ""


def test_equal_samples_are_drawn() -> None:
    assert "path" in distributions([("one", [2.0, 2.0, 2.0])], "ms")


def test_a_model_in_a_notebook() -> None:
    model = fg.load(MODEL, threads=1)
    page = alone(f"<html>{model._repr_html_()}</html>")
    said = " ".join(page.words)
    assert "image: float32[1,1,8,8]" in said and f"{len(model.plan.program.steps)} steps" in said
    assert sum(tag == "details" for tag, _ in page.tags) == 2 and any(tag == "svg" for tag, _ in page.tags)


@pytest.mark.parametrize("shape", [(4,), ("n",)])
def test_print_is_a_screen(shape: tuple[Any, ...]) -> None:
    net = Net()
    x = net.input("x" * 300, shape)
    for _ in range(300):
        x = net("Sin", net("Abs", x))
    net.output(x)
    model = net.load()
    lines = str(model).splitlines()
    assert len(lines) <= 24 and all(len(line) <= 170 for line in lines)
    assert ("no plan yet" in str(model)) == (shape == ("n",))
    assert len(repr(model).splitlines()) == 1
    alone(f"<html>{model._repr_html_()}</html>")
