"""Where an operator's rule is found: the user's, or one in the files of rules."""

from __future__ import annotations

from ...errors import InputError
from ...ops.registry import USERS
from ..core.registry import RuleFiles
from .call import CUSTOM, RULES, Rule

FILES = RuleFiles(
    __package__, ("rules_activation", "rules_conv", "rules_elementwise", "rules_pool", "rules_reduce", "rules_shape")
)


def builtin_rule(name: str) -> Rule | None:
    """The rule of a builtin operator."""
    return FILES.find(RULES, name)


def rule_of(code: str) -> Rule | None:
    """The rule of a custom operator: a user's, that of a user's kernel, or one of ours."""
    return _OWN.get(code) or _of_kernel(code) or FILES.find(CUSTOM, code)


def _of_kernel(code: str) -> Rule | None:
    """What writes a node of the operator that `fastgraph.register_custom_op` has added by that name."""
    if not any(name == code for _, name in USERS):
        return None
    from ...ops.custom import of_name

    user = of_name(code)
    return lambda c: c.custom(user, c.inputs, c.outputs, c.settings())


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
