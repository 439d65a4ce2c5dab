"""Damage to files of any format: bytes that change, and fields of protobuf messages that get another value."""

import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Any

POWERS = [1 << n for n in (4, 5, 6, 12, 16, 20, 30, 31, 40)]
NUMBERS = [-1, -2, -3, -100, *range(10), 17, 100, 200, 1000, *POWERS, (1 << 31) - 1, (1 << 63) - 1, -(1 << 63)]
REALS = (0.0, 1.0, -1.0, 0.5, 1e-30, 1e30, float("nan"), float("inf"))

Words = Callable[[str], Sequence[str]]
"""What the texts of fields that are called so may become."""


def mangled(data: bytes, rng: random.Random) -> bytes:
    """Bytes with some changed, doubled, dropped or taken from elsewhere."""
    found = bytearray(data)
    for _ in range(rng.choice((1, 1, 1, 2, 3, 8))):
        if not found:
            break
        at, other = rng.randrange(len(found)), rng.randrange(len(found))
        match rng.randrange(5):
            case 0:
                found[at] ^= 1 << rng.randrange(8)
            case 1:
                found[at] = rng.choice((0, 1, 2, 8, 10, 18, 26, 127, 128, 255))
            case 2:
                del found[at : at + rng.choice((1, 2, 8, 64, len(found)))]
            case 3:
                found[at:at] = found[at : at + rng.choice((1, 4, 16, 64))]
            case 4:
                found[at:at] = found[other : other + rng.choice((4, 16, 64))]
    return bytes(found)


def edited(message: Any, rng: random.Random, words: Words) -> None:
    """Change some fields of a message; it stays sound as one."""
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        if places := list(fields(message)):
            with suppress(ValueError):  # enums of old messages hold none but their own numbers
                _change(*rng.choice(places), rng, words)


def fields(message: Any, depth: int = 0) -> Iterator[tuple[Any, Any]]:
    """(message, field) of all that is set, at any depth; of maps their values."""
    for field, held in message.ListFields():
        yield message, field
        if field.message_type is None or depth > 60:
            continue
        if is_map(field):
            values = [held[key] for key in sorted(held)] if has_messages(field) else []
        else:
            values = held[:50] if repeated(field) else [held]
        for item in values:
            yield from fields(item, depth + 1)


def repeated(field: Any) -> bool:
    return field.is_repeated if hasattr(field, "is_repeated") else field.label == field.LABEL_REPEATED


def is_map(field: Any) -> bool:
    return field.message_type is not None and field.message_type.GetOptions().map_entry


def has_messages(field: Any) -> bool:
    """Whether the values of a map are messages."""
    return field.message_type.fields_by_name["value"].message_type is not None


def _change(holder: Any, field: Any, rng: random.Random, words: Words) -> None:
    """Another value for a field, one less or one more of a list, or the field not set."""
    held = getattr(holder, field.name)
    if rng.random() < 0.08:
        holder.ClearField(field.name)
    elif is_map(field):
        keys = sorted(held)
        if rng.random() < 0.5:
            del held[rng.choice(keys)]
        elif has_messages(field):
            held[rng.choice(keys)].CopyFrom(held[rng.choice(keys)])
    elif repeated(field) and len(held):
        at = rng.randrange(len(held))
        if field.message_type is not None:
            _change_list(held, at, rng)
        elif rng.random() < 0.2:
            del held[at]
        else:
            held[at] = _scalar(field, held[at], rng, words)
    elif field.message_type is None:
        setattr(holder, field.name, _scalar(field, held, rng, words))


def _change_list(held: Any, at: int, rng: random.Random) -> None:
    """A message of a list goes, comes twice, or becomes another one or changes places with it."""
    other, action = rng.randrange(len(held)), rng.randrange(4)
    if action == 0:
        del held[at]
    elif action == 1 and held[at].ByteSize() < 1 << 16:
        held.add().CopyFrom(held[at])
    else:
        copy = type(held[at]).FromString(held[at].SerializeToString())
        held[at].CopyFrom(held[other])
        if action == 3:
            held[other].CopyFrom(copy)


def _scalar(field: Any, held: Any, rng: random.Random, words: Words) -> Any:
    """A value that a field of that type can hold, and more often than not one that some model may hold."""
    kind = field.cpp_type
    if kind == field.CPPTYPE_STRING:
        if not isinstance(held, bytes):
            return rng.choice(words(field.name))
        return rng.choice(words(field.name)).encode() if len(held) < 20 and rng.random() < 0.5 else mangled(held, rng)
    if kind == field.CPPTYPE_BOOL:
        return not held
    if kind in (field.CPPTYPE_FLOAT, field.CPPTYPE_DOUBLE):
        return rng.choice(REALS)
    if kind == field.CPPTYPE_ENUM:
        return rng.choice([v.number for v in field.enum_type.values] + [99])
    bits = 32 if kind in (field.CPPTYPE_INT32, field.CPPTYPE_UINT32) else 64
    low = 0 if kind in (field.CPPTYPE_UINT32, field.CPPTYPE_UINT64) else -(1 << (bits - 1))
    number = rng.choice(NUMBERS) if rng.random() < 0.8 else held + rng.choice((-1, 1, 2, 64))
    return max(low, min(number, (1 << (bits - (low < 0))) - 1))
