"""What is tried with a seed: a composition, in which form, and which other plans of it."""

from __future__ import annotations

import random
from dataclasses import dataclass

from fastgraph.compile import STAGES
from fastgraph.kernels.isa.tiers import usable

from .check import Differs, check, small_networks_count
from .composition import Composition
from .coverage import Coverage, rules
from .draw import draw
from .forms import FORMS, says


@dataclass(frozen=True)
class Job:
    seed: int
    palette: int | None
    form: str
    variants: tuple[str, ...]

    def net(self) -> Composition:
        return draw(self.seed, self.palette)


def job(seed: int, palette: int | None = None, tiers: bool = True, count: int = 2) -> Job:
    """Always the same for a seed: variants and forms that say the composition come round by turns."""
    r = random.Random(f"job {seed}")
    groups: list[list[str]] = [
        ["threads 2", "threads 3"],
        ["steps"],
        [f"without {name}" for name in ("bands", "winograd", "views", "in_place", "reuse")],
        [f"without {name}" for name, _ in STAGES],
        [f"without {rule}" for rule in rules() if rule not in NEEDED],
        ["budget 1", "budget 4096", "budget 1000000"],
    ]
    if tiers:
        groups.append([f"isa {tier.name}" for tier in usable()])
    net = draw(seed, palette)
    forms = [form for form in FORMS if says(form, net)]
    form = r.choices(forms, [WEIGHTS.get(form, 1.0) for form in forms])[0]
    return Job(seed, palette, form, tuple(r.choice(group) for group in r.sample(groups, count)))


NEEDED = frozenset({"explicit_window", "spatial_axes"})
"""Rules that give the form in which later stages take a node."""

WEIGHTS: dict[str, float] = {"onnx f32": 4.0}
"""How often a form is tried, where it isn't once."""


def attempt(net: Composition, form: str, variants: tuple[str, ...], coverage: Coverage | None = None) -> None:
    """Differs, or what was raised, when something is wrong. Declined when the form can't say the composition."""
    subject = FORMS[form](net)
    with small_networks_count():
        model = check(subject, variants)
    if coverage is not None:
        coverage.planned(model)


def kind(error: Exception) -> str:
    """Failures of one kind have one cause, as like as not."""
    return error.where if isinstance(error, Differs) else f"{type(error).__name__}: {str(error)[:60]}"
