"""Named tuples for what a start imports: `typing.NamedTuple` compiles every annotation, which takes a start's time."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import NamedTuple as NamedTuple
else:
    from _collections import _tuplegetter as getter

    class NamedTuple(tuple):
        """As `typing.NamedTuple`; annotations are not evaluated, and there is no `_make`."""

        __slots__ = ()
        _fields = ()
        _field_defaults = {}

        def __init_subclass__(cls) -> None:
            if NamedTuple in cls.__bases__:
                cls._fields = cls.__match_args__ = tuple(cls.__annotations__)
                cls._field_defaults = {name: vars(cls)[name] for name in cls._fields if name in vars(cls)}
                for number, name in enumerate(cls._fields):
                    setattr(cls, name, getter(number, ""))

        def __new__(cls, *given, **named):
            if len(given) == len(cls._fields) and not named:
                return tuple.__new__(cls, given)
            known = {**cls._field_defaults, **dict(zip(cls._fields, given, strict=False)), **named}
            wrong = [name for name in cls._fields[: len(given)] if name in named]
            if (
                len(given) > len(cls._fields)
                or wrong
                or len(known) != len(cls._fields)
                or set(known) - set(cls._fields)
            ):
                raise TypeError(f"{cls.__name__} takes {', '.join(cls._fields)}")
            return tuple.__new__(cls, [known[name] for name in cls._fields])

        def __getnewargs__(self):
            return tuple(self)

        def _replace(self, **changed):
            return type(self)(**{**self._asdict(), **changed})

        def _asdict(self):
            return dict(zip(self._fields, self, strict=True))

        def __repr__(self) -> str:
            fields = self._asdict().items()
            return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in fields)})"
