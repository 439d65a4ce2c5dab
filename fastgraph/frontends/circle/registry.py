"""Rules of custom operators that users have given."""

from __future__ import annotations

from ...errors import InputError, ModelError
from ...ops.registry import USERS
from .call import Call, Rule


def custom_rule_of(code: str) -> Rule | None:
    """A user's rule of a custom operator, or that of a user's kernel, which writes a node of the operator that
    `fastgraph.register_custom_op` has added by that name.
    """
    if code in _OWN or not any(name == code for _, name in USERS):
        return _OWN.get(code)
    from ...ops.custom import of_name

    user = of_name(code)

    def rule(c: Call) -> None:
        try:
            settings = c.flexbuffer()
        except ModelError:  # no map: the kernel gets the bytes
            settings = {"custom_options": bytes(c.custom_options)}
        c.custom(user, c.inputs, c.outputs, settings)

    return rule


_OWN: dict[str, Rule] = {}


def custom_rule(code: str, rule: Rule | None) -> None:
    """Let `rule` translate operators whose custom code is `code`; None takes it back. Where operators of the graph
    don't say it, `fastgraph.register_custom_op` takes a function that computes it.

    A rule writes nodes of fastgraph's operators that make `c.outputs`:

        def swish(c):                                  # c: fastgraph.frontends.circle.call.Call
            beta = c.const(np.float32(c.flexbuffer()["beta"]))
            c.write("mul", [c.x(), c.add("sigmoid", [c.add("mul", [c.x(), beta])])])

        fastgraph.frontends.circle.custom_rule("Swish", swish)

    It holds for loads from here on, also in place of a rule that fastgraph has for that code.
    """
    if not isinstance(code, str) or not (rule is None or callable(rule)):
        raise InputError(f"expected a custom code and its rule, found {code!r} and {rule!r}")
    if rule is None:
        _OWN.pop(code, None)
    else:
        _OWN[code] = rule
