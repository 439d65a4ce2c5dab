"""A failing composition as a script that runs beside the tests."""

from .composition import Composition

SCRIPT = """\
from tests.compositions.composition import Composition, Const, Input, Op
from tests.compositions.job import attempt
from tests.compositions.nodes import Body

net = {net}
attempt(net, {form!r}, {variants!r})
"""


def script(net: Composition, form: str, variants: tuple[str, ...]) -> str:
    return SCRIPT.format(net=net, form=form, variants=variants)
