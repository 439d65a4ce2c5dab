"""The set of kernels is closed: it is small, and no network wants one that is not in it. Nothing is compiled here."""

import pytest

from fastgraph.demo import MODEL
from fastgraph.kernels.core.table import kernels_of, rows
from fastgraph.kernels.isa.tiers import BY_NAME, TIERS, Tier
from fastgraph.tools.numpy_operators import files
from tests.compositions.check import small_networks_count
from tests.wanted import GOAL, SHARED, Wanted, random_files


def check(wanted: Wanted) -> None:
    assert not wanted.failed
    for tier in TIERS:
        assert wanted.kernels[tier.name] and not wanted.unlisted(tier)


@pytest.mark.parametrize("tier", list(BY_NAME.values()), ids=list(BY_NAME))
def test_a_tier_has_few_kernels(tier: Tier) -> None:
    assert len(kernels_of(tier)) <= GOAL


@pytest.mark.parametrize("name", rows())
def test_each_value_of_a_parameter_is_in_a_kernel(name: str) -> None:
    """What no tier has is no value."""
    found = [dict(kernel.params) for tier in TIERS for kernel in rows()[name].kernels(tier)]
    for parameter, values in rows()[name].params.items():
        assert values and set(values) == {params[parameter] for params in found}


def test_random_graphs_want_what_is_listed() -> None:
    wanted = Wanted()
    wanted.add("digits", str(MODEL))
    with small_networks_count():
        for what, source in random_files(range(30)):
            wanted.add(what, source)
    check(wanted)
    assert wanted.plans > 20 * len(TIERS)


@pytest.mark.slow
@pytest.mark.skipif(not SHARED.exists(), reason="no shared/models beside the repository")
def test_files_want_what_is_listed() -> None:
    wanted = Wanted()
    for path in files([str(SHARED)]):
        wanted.add(path, path)
    check(wanted)
    assert wanted.plans > 900 * len(TIERS)
