"""Changes of a claim that make it false, or its proof no proof: each is known to be wrong by itself.

A claim's numbers are tight to one unit in the last of 53 digits, so that a value a little lower, a bound a
little higher or a gap a little smaller is false. Of the multipliers a change counts that breaks what they
must keep: signs, caps, balance, shares. Of the program one that its point or its bound does not survive.
"""

from __future__ import annotations

import copy
import math
import struct
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from polyopt.certificates.claims.statement import numeral
from polyopt.check.check import Program, load_samples, number, vector

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Iterator
    from pathlib import Path

_LAST = Fraction(1, 2**52)
# Fields that may be left out, or that may change without an effect.
_OPTIONAL = {"title", "at", "b", "low", "high", "l1", "count", "less", "pays", "loss"}
_OPTIONAL |= {"constant"}


class Falsifier:
    """Draws false variants of one claim of one data file, in the svmlight format."""

    def __init__(self, claim: dict[str, Any], cells: Path):
        self.claim, self.lines = claim, cells.read_text().splitlines()
        rows, m, y = load_samples(claim["data"], str(cells))
        self.program, self.n = Program(claim["program"], rows, m, y), len(y)

    def draw(self, draw: random.Random) -> tuple[dict[str, Any], list[str], str]:
        """A claim, the lines of a data file, and what was done; one of them is changed."""
        kinds: list[Callable[[random.Random, dict[str, Any], list[str]], bool]] = [
            self._datum, self._datum, self._label, self._lines, self._number, self._number, self._multiplier,
            self._multiplier, self._multiplier, self._side, self._parameter, self._parameter, self._digest,
        ]  # fmt: skip
        while True:
            kind, claim, lines = draw.choice(kinds), copy.deepcopy(self.claim), list(self.lines)
            if kind(draw, claim, lines):
                return claim, lines, kind.__name__

    def _datum(self, draw: random.Random, claim: dict[str, Any], lines: list[str]) -> bool:
        """One bit of one number of the data."""
        i = draw.randrange(self.n)
        words = lines[i].split()
        if len(words) == 1:
            return False
        at = draw.randrange(1, len(words))
        place, _, value = words[at].partition(":")
        bits = struct.unpack("<Q", struct.pack("<d", float(value)))[0] ^ (1 << draw.randrange(64))
        new = struct.unpack("<d", struct.pack("<Q", bits))[0]
        words[at] = f"{place}:{new!r}"
        lines[i] = " ".join(words)
        return math.isfinite(new)

    def _label(self, draw: random.Random, claim: dict[str, Any], lines: list[str]) -> bool:
        i = draw.randrange(self.n)
        lines[i] = ("-" if lines[i][0] == "+" else "+") + lines[i][1:]
        return True

    def _lines(self, draw: random.Random, claim: dict[str, Any], lines: list[str]) -> bool:
        """A sample dropped, twice, or two that change places."""
        i, j, way = draw.randrange(self.n), draw.randrange(self.n), draw.randrange(3)
        if way == 0:
            del lines[i]
        elif way == 1:
            lines.insert(0, lines[i])
        else:
            lines[i], lines[j] = lines[j], lines[i]
        return lines[: self.n] != self.lines

    def _digest(self, draw: random.Random, claim: dict[str, Any], lines: list[str]) -> bool:
        data = claim["data"]
        at = draw.randrange(64)
        old = data["sha256"][at]
        new = draw.choice("0123456789abcdef".replace(old, ""))
        data["sha256"] = data["sha256"][:at] + new + data["sha256"][at + 1 :]
        return True

    def _number(self, draw: random.Random, claim: dict[str, Any], lines: list[str]) -> bool:
        """Value or gap a bit lower, bound a bit higher."""
        field, way = draw.choice((("value", -1), ("bound", 1), ("gap", -1)))
        old = number(claim["claim"][field])
        size = max(abs(old), abs(number(claim["claim"]["value"])) * _LAST) or _LAST
        claim["claim"][field] = numeral(old + way * 2 * size * Fraction(1, 2 ** draw.randrange(53)))
        return True

    def _multiplier(self, draw: random.Random, claim: dict[str, Any], lines: list[str]) -> bool:
        """Signs, caps, balance, shares, or what a group holds, broken by some bits."""
        told, program = claim["multipliers"], self.program
        if "shares" in told and draw.random() < 0.3:
            k = draw.randrange(program.faces)
            step = Fraction(draw.choice((-1, 1)), 2 ** draw.randrange(60))
            told["shares"][k] = numeral(number(told["shares"][k]) + step)
            return True
        if "held" in told and draw.random() < 0.3:
            k = draw.randrange(program.faces)
            held = vector(told["held"][k], program.width)
            held[0] = (program.group or 1) * (1 + Fraction(1, 2 ** draw.randrange(60)))
            told["held"][k] = [numeral(v) for v in held]
            return True
        rows = draw.choice(program.rows)
        k, i = draw.randrange(program.faces), draw.randrange(self.n)
        m = [vector(part, self.n) for part in told["rows"][rows.name]]
        step = Fraction(1, 2 ** draw.randrange(60))
        way = draw.randrange(3)
        if way == 0 or k not in rows.at[i]:
            m[k][i] = -step if k in rows.at[i] else step
        elif way == 1 and rows.cap[i] < math.inf:
            m[k][i] = rows.cap[i] + step
        elif program.intercept or rows.loss == "linear":
            m[k][i] += draw.choice((-1, 1)) * step * (m[k][i] or 1)
        else:
            return False
        told["rows"][rows.name][k] = [numeral(v) for v in m[k]]
        return True

    def _side(self, draw: random.Random, claim: dict[str, Any], lines: list[str]) -> bool:
        """Fields that are gone, or of another kind."""
        place = draw.choice([place for place in _places(claim) if not _OPTIONAL & set(place)])
        holder: Any = claim
        for key in place[:-1]:
            holder = holder[key]
        old, new = holder[place[-1]], draw.choice((None, True, "", [], {}, 1.5, "nan"))
        holder[place[-1]] = new
        return bool(old != new)

    def _parameter(self, draw: random.Random, claim: dict[str, Any], lines: list[str]) -> bool:
        """Prices, caps, kinks, kernels: raised, the point is worth more; lowered, less is proven."""
        program = claim["program"]
        factor = 1 + Fraction(draw.choice((-1, 1)), 2 ** draw.randrange(1, 20))
        # A row that nothing holds may be a little looser, and the claim is as true.
        used = claim["multipliers"]["rows"]
        row = draw.choice([r for r in program["rows"] if any(part != 0 for part in used[r["name"]])] or [{}])
        fields: list[tuple[dict[str, Any], str]] = [(row, name) for name in ("kink", "cap") if row]
        fields += [(program["size"], name) for name in ("factor", "l1", "group") if name in program["size"]]
        fields += [(program["features"], name) for name in ("gamma", "coef0") if name in program["features"]]
        holder, name = draw.choice(fields)
        old = holder[name]
        values = [value for value in _values(old) if value != "inf"]
        if isinstance(old, dict) or len(values) < len(_values(old)) or not any(map(number, values)):
            return False
        holder[name] = _multiplied(old, factor)
        return number(claim["claim"]["value"]) > 0


def _values(told: Any) -> list[Any]:
    """The numbers of a list, of lists in it, or the number itself."""
    return [value for part in told for value in _values(part)] if isinstance(told, list) else [told]


def _multiplied(told: Any, factor: Fraction) -> Any:
    """The same with every number multiplied."""
    if isinstance(told, list):
        return [_multiplied(part, factor) for part in told]
    return numeral(number(told) * factor)


def _places(node: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Every place of a claim, by fields alone: lists are one place."""
    for key, below in node.items():
        yield (*path, key)
        if isinstance(below, dict):
            yield from _places(below, (*path, key))
