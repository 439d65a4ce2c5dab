"""Loops and branches of the kernel that is being written. Python runs their bodies once.

`for i in over(n)` and `with when(x < y)` stand for a loop and a branch of the kernel: `break` and `return` within them
mean nothing to it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from . import llvm
from .lanes import any_lane
from .types import I64, Mistake, Type
from .values import Value, builder, number, tier, writing


def over(start: Any, stop: Any = None, step: Any = 1) -> Iterator[Value]:
    """`for i in over(n)`, `over(start, stop, step)`: a loop over int64s; step > 0."""
    if stop is None:
        start, stop = 0, start
    b = builder()
    start, stop, step = (number(x).x for x in (start, stop, step))
    before = b.block
    head, body, done = (b.append_basic_block(name) for name in ("head", "body", "done"))
    b.branch(head)
    b.position_at_end(head)
    i = b.phi(I64.llvm)
    i.add_incoming(start, before)
    b.cbranch(b.icmp_signed("<", i, stop), body, done)
    b.position_at_end(body)
    yield Value(i, I64)
    i.add_incoming(b.add(i, step), b.block)
    b.branch(head)
    b.position_at_end(done)


def during(*conditions: Callable[[], Value]) -> Iterator[Value]:
    """`for held in during(lambda: x.value > 0):` a loop for as long as a condition holds, of a mask in any lane.

    Of several, each is computed where those before it hold; `held` is the last.
    """
    b = builder()
    head, *bodies, done = (b.append_basic_block(name) for name in ("head", *["body"] * len(conditions), "done"))
    b.branch(head)
    b.position_at_end(head)
    for condition, following in zip(conditions, bodies, strict=True):
        held = condition()
        b.cbranch((any_lane(held) if held.lanes else held).x, following, done)
        b.position_at_end(following)
    yield held
    b.branch(head)
    b.position_at_end(done)


def repeat(
    count: Any, state: Sequence[Value], body: Callable[[Value, list[Value]], Sequence[Value]], once: bool = False
) -> list[Value]:
    """A loop of `state = body(index, state)`, count times, at least once; the last state. once: its code is there once,
    however short it is.
    """
    b = builder()
    before, inside = b.block, b.append_basic_block("loop")
    b.branch(inside)
    b.position_at_end(inside)
    index = b.phi(I64.llvm)
    index.add_incoming(I64.llvm(0), before)
    phis = [b.phi(value.type.llvm) for value in state]
    for phi, value in zip(phis, state, strict=True):
        phi.add_incoming(value.x, before)
    out = list(body(Value(index, I64), [Value(phi, v.type) for phi, v in zip(phis, state, strict=True)]))
    following = b.add(index, I64.llvm(1))
    for phi, x in zip([index, *phis], [following, *(value.x for value in out)], strict=True):
        phi.add_incoming(x, b.block)
    after = b.append_basic_block("after")
    again = b.cbranch(b.icmp_signed("<", following, number(count).x), inside, after)
    if once:
        rolled(again)
    b.position_at_end(after)
    return out


def rolled(branch: Any) -> None:
    """Have LLVM leave the loop that ends with this branch as it is: a long body is no faster for being there twice."""
    module = builder().module
    off = module.add_metadata(["llvm.loop.unroll.disable"])
    loop = module.add_metadata([off])
    loop.operands = (loop, off)
    branch.set_metadata("llvm.loop", loop)


def when(condition: Any, likely: bool | None = None) -> AbstractContextManager[Any]:
    """`with when(condition):` what the kernel does where it holds; None and True are known to hold."""
    if condition is None or condition is True:
        return nullcontext()
    if not isinstance(condition, Value):
        raise Mistake(f"when({condition!r}) is known: use Python's if")
    return builder().if_then(condition.x, likely=likely)


def either(condition: Value, likely: bool | None = None) -> AbstractContextManager[tuple[Any, Any]]:
    """`with either(condition) as (then, otherwise):` and within it `with then:` and `with otherwise:`."""
    return builder().if_else(condition.x, likely=likely)


def cases(value: Value, bodies: Mapping[int, Callable[[], None]], otherwise: Callable[[], None] | None = None) -> None:
    """The code of the case that a number is; `otherwise` (nothing) when it is none of them."""
    b = builder()
    after = b.append_basic_block("after")
    other = b.append_basic_block("otherwise") if otherwise else after
    switch = b.switch(value.x, other)
    for case, body in bodies.items():
        block = b.append_basic_block("case")
        switch.add_case(value.type.llvm(case), block)
        b.position_at_end(block)
        body()
        b.branch(after)
    if otherwise:
        b.position_at_end(other)
        otherwise()
        b.branch(after)
    b.position_at_end(after)


def outlined(name: str | None, returns: Type | None, body: Callable[..., Any], *values: Value) -> Any:
    """What `body(*values)` gives, as a function of the module of its own: with all registers to itself, and there once
    for all calls that give it the same name.
    """
    module, outer = builder().module, builder()
    made = module.globals.get(name) if name else None
    if made is None:
        result = llvm.VoidType() if returns is None else returns.llvm
        kind = llvm.FunctionType(result, [value.type.llvm for value in values])
        made = llvm.Function(module, kind, name or module.get_unique_name("part"))
        made.linkage = "internal"
        made.attributes.add("noinline")
        inner = type(outer)(made.append_basic_block())
        with writing(inner, tier()):
            found = body(*(Value(x, value.type) for x, value in zip(made.args, values, strict=True)))
        if returns is None:
            inner.ret_void()
        else:
            inner.ret(returns(found).x)
    found = outer.call(made, [value.x for value in values])
    return None if returns is None else Value(found, returns)
