"""`fastgraph inspect --asm`: a step's call, and the machine code of its kernel."""

from __future__ import annotations

from collections.abc import Iterator

from ..errors import InputError
from ..kernels.core.kernel import Kernel
from ..kernels.core.table import row
from ..plan.describe import step_text as step_line
from ..plan.program import ERROR, Arg, Jump, Step, Table, UserKernel, record_of
from ..runtime.executable import Executable
from ..text import table


def step_text(plan: Executable, number: int) -> str:
    """Step `number` of the plan: its node, kernel, record by slots, and machine code for the plan's ISA tier.

    InputError with the numbers there are when there is no such step, or none with a kernel.
    """
    steps = plan.program.steps
    native = [i for i, step in enumerate(steps) if isinstance(step, Step)]
    if not native:
        raise InputError(f"no step has machine code: NumPy computes all {len(steps)}")
    step = steps[number] if 0 <= number < len(steps) else None
    if not isinstance(step, Step):
        why = f"there is no step {number}" if step is None else f"NumPy computes step {number} ({step.node.op})"
        if isinstance(step, Jump):
            why = f"step {number} is a {step_line(number, step)}"
        raise InputError(f"{why}: steps with machine code are {', '.join(_ranges(native))}")
    code = _code(step.kernel, plan)
    head = f"step {number}: {step.node.op} -> {step.node.out.name}: {step.node.out.type}"
    return "\n".join([head, f"kernel {step.kernel} for {plan.tier.name}", *record_lines(step), "", code.strip()])


def _code(kernel: Kernel, plan: Executable) -> str:
    if isinstance(kernel, UserKernel):
        from ..objects.user import assembly as of_user

        return of_user(kernel)
    from ..kernels.core.build import assembly

    text: str = assembly(row(kernel.name).make()(plan.tier, **dict(kernel.params)), plan.tier)
    return text


def record_lines(step: Step) -> list[str]:
    """A line per slot of a step's record: name, value, meaning. Slots behind the declared ones go by their numbers."""
    slots = record_of(step.kernel)
    names = [*slots, *map(str, range(len(slots), len(step.args)))]
    rows = [(name, _value(arg), slots.get(name, "")) for name, arg in zip(names, step.args, strict=False)]
    return [f"  {line}" for line in table(rows)] if rows else []


def _value(arg: Arg) -> str:
    """A number, or the meaning of an address."""
    if isinstance(arg, int):
        return str(arg)
    if isinstance(arg, Kernel):
        return f"&{arg}"
    if isinstance(arg, Table):
        return f"&({', '.join(map(_value, arg.words))})"
    if arg == ERROR:
        return "&error"
    where = f"&constant {arg.base}" if isinstance(arg.base, int) else f"&{arg.base.name}"
    return f"{where} + {arg.offset}" if arg.offset else where


def _ranges(numbers: list[int]) -> Iterator[str]:
    """Numbers in order as "0 to 3", "5"."""
    first = last = numbers[0]
    for number in [*numbers[1:], -1]:
        if number == last + 1:
            last = number
            continue
        yield str(first) if first == last else f"{first} to {last}"
        first = last = number
