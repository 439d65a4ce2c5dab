"""Where an operator's rule is found: the user's, or one in the files of rules."""

from __future__ import annotations

from ...errors import InputError
from ..core.registry import RuleFiles
from .call import CUSTOM, RULES, Rule

FILES = RuleFiles(
    __package__, ("rules_activation", "rules_conv", "rules_elementwise", "rules_pool", "rules_reduce", "rules_shape")
)


def builtin_rule(name: str) -> Rule | None:
    """The rule of a builtin operator."""
    return FILES.find(RULES, name)


def custom_rule(code: str) -> Rule | None:
    """The rule of a custom operator: the user's, or one of ours."""
    return _USERS.get(code) or FILES.find(CUSTOM, code)


_USERS: dict[str, Rule] = {}


def register_custom_op(code: str, rule: Rule | None) -> None:
    """Let `rule` translate operators whose custom code is `code`; None takes it back.

    A rule writes nodes of fastgraph's operators that make `c.outputs`:

        def swish(c):                                  # c: fastgraph.frontends.circle.call.Call
            beta = c.const(np.float32(c.flexbuffer()["beta"]))
            c.write("mul", [c.x(), c.add("sigmoid", [c.add("mul", [c.x(), beta])])])

        fastgraph.register_custom_op("Swish", swish)

    It holds for loads from here on, also in place of a rule that fastgraph has for that code.
    """
    if not isinstance(code, str) or not (rule is None or callable(rule)):
        raise InputError(f"expected a custom code and its rule, found {code!r} and {rule!r}")
    if rule is None:
        _USERS.pop(code, None)
    else:
        _USERS[code] = rule
