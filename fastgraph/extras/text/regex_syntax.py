"""RE2's syntax of regular expressions as trees. Syntax and meaning: RE2, doc/syntax.txt."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable
from functools import cache

from ...errors import UnsupportedError

MOST_REPEATS = 1000
DEEPEST = 100

Test = Callable[[str], bool]
Tree = tuple
"""("test", Test), ("at", place), ("cat" | "or", trees), ("repeat", tree, least, most or None)."""

PERL = {
    "d": "0123456789".__contains__,
    "s": "\t\n\f\r ".__contains__,
    "w": lambda c: c.isascii() and (c.isalnum() or c == "_"),
}
_POSIX: dict[str, Test] = {
    "alnum": lambda c: c.isascii() and c.isalnum(), "alpha": lambda c: c.isascii() and c.isalpha(),
    "ascii": str.isascii, "blank": " \t".__contains__, "cntrl": lambda c: c < " " or c == "\x7f",
    "digit": PERL["d"], "graph": lambda c: "!" <= c <= "~", "lower": lambda c: "a" <= c <= "z",
    "print": lambda c: " " <= c <= "~", "punct": lambda c: "!" <= c <= "~" and not c.isalnum(),
    "space": "\t\n\v\f\r ".__contains__, "upper": lambda c: "A" <= c <= "Z", "word": PERL["w"],
    "xdigit": "0123456789abcdefABCDEF".__contains__,
}  # fmt: skip
_ESCAPES = {"a": "\a", "f": "\f", "t": "\t", "n": "\n", "r": "\r", "v": "\v"}
_PLACES = {"A": "begin", "z": "end", "b": "edge", "B": "no edge"}
_KINDS = frozenset(
    "C Cc Cf Co Cs L Ll Lm Lo Lt Lu M Mc Me Mn N Nd Nl No P Pc Pd Pe Pf Pi Po Ps S Sc Sk Sm So Z Zl Zp Zs".split()
)


def parse(pattern: str) -> Tree:
    """The tree of a pattern. ValueError says why it is none, UnsupportedError names a script (\\p{Greek})."""
    return _Parser(pattern).whole()


class _Parser:
    """`flags`: those of "ims" that hold at the place that is read."""

    def __init__(self, pattern: str) -> None:
        self.text = pattern
        self.at = 0
        self.flags = frozenset[str]()
        self.depth = 0

    def whole(self) -> Tree:
        tree = self.either()
        if self.at < len(self.text):
            raise ValueError("a ) without (")
        return tree

    def take(self, start: str) -> bool:
        """Whether the rest starts so; if it does, that is read."""
        if not self.text.startswith(start, self.at):
            return False
        self.at += len(start)
        return True

    def char(self) -> str:
        if self.at >= len(self.text):
            raise ValueError("it ends too early")
        self.at += 1
        return self.text[self.at - 1]

    def until(self, end: str) -> str:
        """What comes before `end`, which is read too."""
        stop = self.text.find(end, self.at)
        if stop < 0:
            raise ValueError(f"{end} is missing")
        found, self.at = self.text[self.at : stop], stop + len(end)
        return found

    def either(self) -> Tree:
        self.depth += 1
        if self.depth > DEEPEST:
            raise ValueError(f"groups lie more than {DEEPEST} deep in one another")
        flags, branches = self.flags, [self.sequence()]
        while self.take("|"):
            branches.append(self.sequence())
        self.flags = flags
        self.depth -= 1
        return branches[0] if len(branches) == 1 else ("or", branches)

    def sequence(self) -> Tree:
        found: list[Tree] = []
        while self.at < len(self.text) and self.text[self.at] not in "|)":
            if self.take("\\Q"):
                quoted, end, _ = self.text[self.at :].partition("\\E")
                self.at += len(quoted + end)
                found += [self.literal(char) for char in quoted]
                found[-1:] = [self.repeated(tree) for tree in found[-1:] if quoted]
                continue
            tree = self.atom()
            if tree is not None:
                found.append(self.repeated(tree))
        return ("cat", found)

    def repeated(self, tree: Tree) -> Tree:
        bounds = self.bounds()
        if bounds is None:
            return tree
        self.take("?")
        if self.bounds() is not None:
            raise ValueError("a repetition of a repetition")
        least, most = bounds
        if max(least, most or 0) > MOST_REPEATS or (most is not None and most < least):
            raise ValueError(f"a repetition {{{least},{'' if most is None else most}}}; at most {MOST_REPEATS}")
        return ("repeat", tree, least, most)

    def bounds(self) -> tuple[int, int | None] | None:
        """The least and the greatest number of a repetition, if there is one here."""
        for sign, found in (("*", (0, None)), ("+", (1, None)), ("?", (0, 1))):
            if self.take(sign):
                return found  # type: ignore[return-value]
        stop = self.text.find("}", self.at)
        if not self.text.startswith("{", self.at) or stop < 0:
            return None
        least, comma, most = self.text[self.at + 1 : stop].partition(",")
        if not all(part.isascii() and part.isdigit() for part in (least, *([most] if most else []))):
            return None
        self.at = stop + 1
        numbers = [int(part[-9:]) if len(part.lstrip("0")) < 9 else MOST_REPEATS + 1 for part in (least, most or least)]
        return numbers[0], None if comma and not most else numbers[1]

    def atom(self) -> Tree | None:
        """A character, class, place or group; None for flags that hold from here on."""
        char = self.char()
        if char == "(":
            return self.group()
        if char == "[":
            return ("test", self.members())
        if char == ".":
            return ("test", _anything if "s" in self.flags else _no_newline)
        if char in "^$":
            line = "line begins" if char == "^" else "line ends"
            return ("at", line if "m" in self.flags else "begin" if char == "^" else "end")
        if char in "*+?":
            raise ValueError(f"nothing that {char} repeats")
        if char != "\\":
            return self.literal(char)
        char = self.char()
        if char in _PLACES:
            return ("at", _PLACES[char])
        test = self.named(char)
        return ("test", test) if test else self.literal(self.escaped(char))

    def group(self) -> Tree | None:
        outside = self.flags
        if self.take("?"):
            if self.take("P<") or self.take("<"):
                name = self.until(">")
                if not name or not all(c == "_" or c.isalnum() for c in name):
                    raise ValueError(f"a group called {name!r} (RE2 has no lookbehind)")
            else:
                flags, on = set(self.flags), True
                while (char := self.char()) not in ":)":
                    if char == "-" and on:
                        on = False
                    elif char in "imsU":
                        (flags.add if on else flags.discard)(char)
                    else:
                        raise ValueError(f"(?{char}, which RE2 does not have")
                self.flags = frozenset(flags)
                if char == ")":
                    return None
        tree = self.either()
        if not self.take(")"):
            raise ValueError("a ( without )")
        self.flags = outside
        return tree

    def literal(self, char: str) -> Tree:
        return ("test", _folded([char.__eq__]) if "i" in self.flags else char.__eq__)

    def named(self, char: str) -> Test | None:
        """The class that \\d, \\pL or the like stands for."""
        negated = char.isupper()
        if char.lower() in PERL:
            test = PERL[char.lower()]
        elif char in "pP":
            name = self.until("}") if self.take("{") else self.char()
            negated ^= name.startswith("^")
            test = _unicode(name.removeprefix("^"))
        else:
            return None
        test = _folded([test]) if "i" in self.flags else test
        return _not(test) if negated else test

    def escaped(self, char: str) -> str:
        """The character that an escape stands for."""
        if char in _ESCAPES:
            return _ESCAPES[char]
        if char == "x":
            digits = self.until("}") if self.take("{") else self.char() + self.char()
            return chr(int(digits, 16))
        octal = char in "01234567" and (char == "0" or self.text[self.at : self.at + 1] in tuple("01234567"))
        if octal:
            digits = char
            while len(digits) < 3 and self.text[self.at : self.at + 1] in tuple("01234567"):
                digits += self.char()
            return chr(int(digits, 8))
        if char.isascii() and (char.isalnum() or char == "_") or not char.isascii():
            raise ValueError(f"\\{char}, which RE2 does not have")
        return char

    def members(self) -> Test:
        """A class in brackets."""
        negated, tests = self.take("^"), list[Test]()
        while not tests or not self.take("]"):
            if self.take("[:"):
                name = self.until(":]")
                test = _POSIX.get(name.removeprefix("^"))
                if test is None:
                    raise ValueError(f"[:{name}:], which RE2 does not have")
                tests.append(_not(test) if name[0] == "^" else test)
                continue
            slash = self.take("\\")
            char = self.char()
            test = self.named(char) if slash else None
            if test is not None:
                tests.append(test)
                continue
            low = high = self.escaped(char) if slash else char
            if self.text[self.at : self.at + 1] == "-" and self.text[self.at + 1 : self.at + 2] not in ("]", ""):
                self.at += 1
                high = self.escaped(self.char()) if self.take("\\") else self.char()
                if high < low:
                    raise ValueError(f"a range from {low!r} to {high!r}")
            tests.append(_between(low, high))
        test = _folded(tests) if "i" in self.flags else _any(tests)
        return _not(test) if negated else test


def _anything(char: str) -> bool:
    return True


def _no_newline(char: str) -> bool:
    return char != "\n"


def _not(test: Test) -> Test:
    return lambda char: not test(char)


def _any(tests: list[Test]) -> Test:
    return lambda char: any(test(char) for test in tests)


def _between(low: str, high: str) -> Test:
    return lambda char: low <= char <= high


def _folded(tests: list[Test]) -> Test:
    """Whether a test holds for the character in upper or in lower case."""
    return lambda char: any(test(form) for form in _cases().get(_case(char), char) for test in tests)


def _case(char: str) -> str:
    """What all forms of a letter have in common."""
    found = char.casefold()
    return found if len(found) == 1 else char.lower() if len(char.lower()) == 1 else char


@cache
def _cases() -> dict[str, str]:
    """The forms of each letter that has more than one."""
    found: dict[str, str] = {}
    for char in map(chr, range(0x1F000)):
        if (case := _case(char)) != char:
            found[case] = found.get(case, case) + char
    return found


def _unicode(name: str) -> Test:
    """The characters of a general category of Unicode, or of all whose names begin so."""
    if name == "Any":
        return _anything
    if name not in _KINDS:
        raise UnsupportedError(f"regular expressions with \\p{{{name}}}: only categories ({', '.join(sorted(_KINDS))})")
    return lambda char: unicodedata.category(char).startswith(name)
