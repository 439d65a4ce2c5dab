"""What is tried with a seed: a composition, in which form, and which other plans of it."""

import random
from dataclasses import dataclass, replace

from fastgraph.freedoms import without
from fastgraph.kernels.isa.tiers import usable
from fastgraph.passes.stages import STAGES

from .afford import NATIVE, Banded
from .check import Differs, check, small_networks_count
from .composition import Composition
from .coverage import Coverage, rules
from .draw import draw
from .forms import FORMS, exact, says
from .precision import WAYS, is_multiplied
from .rare_kinds import RULES as RARE

WAYS_TO_PLAN = "bands winograd views in_place reuse later residual".split()
WAYS_TO_COMPUTE = "reals_of_bytes byte_weights apart phases activations amx_blocks".split()
"""Freedoms (fastgraph/freedoms.py) without which there is another plan."""

WAYS_OF_LAYERS = {
    True: "together depthwise_int8_pairs depthwise_int8_across depthwise_int8_window depthwise_int8 row_int8".split(),
    False: "edges columns depthwise_across depthwise grouped disjoint".split(),
}
"""Those of which a layer of bytes, or of floats, is computed in another way."""


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
        ["threads 2", "threads 3", "threads 4"],
        ["steps"],
        [f"without {name}" for name in WAYS_TO_PLAN],
        [f"without {name}" for name in WAYS_TO_COMPUTE],
        [f"without {name}" for name, _ in STAGES],
        [f"without {rule}" for rule in rules() if rule not in NEEDED],
        ["budget 1", "budget 4096", "budget 1000000"],
    ]
    net = draw(seed, palette)
    growth = r.choice(["batch", "places", "places"]), *r.choice([(1, 1), (1, 16), (2, 0), (2, 0)])
    open_ = ["open {} {} {}".format(*growth)] if r.random() < (TIED if tied(net) else OPEN) else []
    if tiers:
        groups.append([f"isa {tier.name}" for tier in usable()])
    forms = [form for form in FORMS if says(form, net)]
    if any(op.kind in RARE for op in net.ops):
        forms = [form for form in forms if not form.startswith("onnx")] or forms
    form = r.choices(forms, [WEIGHTS.get(form, 1.0) for form in forms])[0]
    if form == "onnx f32" and not exact(net):
        groups.append(["late"])
    others = [r.choice(group) for group in r.sample(groups, count - len(open_))]
    precise = [f"bfloat16 {r.choice(r.choice(WAYS))}"] if r.random() < BFLOAT16 and is_multiplied() else []
    in_bytes = any(word in form for word in ("u8", "s8", "int8"))
    layers = [f"without {r.choice(WAYS_OF_LAYERS[in_bytes])}"] if r.random() < LAYERS else []
    return Job(seed, palette, form, (*open_, *others, *precise, *layers))


LAYERS = 0.25
"""How often a layer's kernels are held against others, beside another variant."""


BFLOAT16 = 0.3
"""How often it is tried beside another variant, as it takes a plan or two."""

OPEN, TIED = 0.25, 0.75
"""How often the extents of inputs are open, in place of another variant; where weights are read several times."""


def tied(net: Composition) -> bool:
    """Whether several operators read the same weights."""
    read = [name for op in net.ops for name in op.inputs if name in net.consts and len(net.consts[name].shape) > 1]
    return len(set(read)) < len(read)


NEEDED = frozenset({"explicit_window", "spatial_axes"})
"""Rules that give the form in which later stages take a node."""

WEIGHTS: dict[str, float] = {"onnx f32": 4.0, "mil f32": 2.0}
"""How often a form is tried, where it isn't once."""


def attempt(net: Composition, form: str, variants: tuple[str, ...], coverage: Coverage | None = None) -> None:
    """Differs, or what was raised, when something is wrong. Declined when the form can't say the composition."""
    for variant in variants:
        if variant.startswith("open") and not exact(net):
            net = replace(net, open=variant.split()[1])
    subject = FORMS[form](net)
    with small_networks_count():
        try:
            model = check(subject, variants)
        except Banded:  # at another shape than the first one
            with without(*NATIVE):
                model = check(subject, variants)
    if coverage is not None:
        coverage.planned(model)


def kind(error: Exception) -> str:
    """Failures of one kind have one cause, as like as not."""
    return error.where if isinstance(error, Differs) else f"{type(error).__name__}: {str(error)[:60]}"
