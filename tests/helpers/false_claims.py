"""Changes of a claim: those that make it false, or its proof no proof, and corruptions of any kind.

A claim's numbers are tight to one unit in the last of 53 digits, so that a value a little lower, a bound a
little higher or a gap a little smaller is false. A change of the multipliers breaks what they must keep:
signs, caps, balance, shares. A change of the program is one that its point or its bound does not survive.
"""

from __future__ import annotations

import copy
import math
import struct
from fractions import Fraction
from functools import partial

from polyopt.certificates.claims.statement import numeral
from polyopt.check.check import Program, load_samples, number, vector

_LAST = Fraction(1, 2**52)
# Fields that may be left out, or that may change without an effect.
_OPTIONAL = {"title", "at", "b", "low", "high", "l1", "count", "less", "pays", "loss", "constant"}


class Falsifier:
    """Draws false variants of one claim about the samples in a file of the svmlight format."""

    def __init__(self, claim, samples):
        self.claim, self.lines = claim, samples.read_text().splitlines()
        rows, m, y = load_samples(claim["data"], str(samples))
        self.program, self.n = Program(claim["program"], rows, m, y), len(y)

    def draws(self, draw):
        """Yield a claim, the lines of its samples, and the kind of the change: each kind once."""
        kinds = [self._datum, self._label, self._digest, self._point, self._field, self._parameter]
        kinds += [partial(self._lines, way) for way in ("dropped", "twice", "exchanged")]
        kinds += [partial(self._number, *each) for each in (("value", -1), ("bound", 1), ("gap", -1))]
        kinds += [partial(self._multiplier, way) for way in ("sign", "cap", "balance", "shares", "held")]
        for kind in kinds:
            for _ in range(20):  # draws of a kind that do not apply to the claim change nothing
                claim, lines = copy.deepcopy(self.claim), list(self.lines)
                if kind(draw, claim, lines):
                    yield claim, lines, getattr(kind, "args", None) or kind.__name__
                    break

    def _datum(self, draw, claim, lines):
        """One bit of one number of the samples."""
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

    def _label(self, draw, claim, lines):
        i = draw.randrange(self.n)
        lines[i] = ("-" if lines[i][0] == "+" else "+") + lines[i][1:]
        return True

    def _lines(self, way, draw, claim, lines):
        i, j = draw.randrange(self.n), draw.randrange(self.n)
        if way == "dropped":
            del lines[i]
        elif way == "twice":
            lines.insert(0, lines[i])
        else:
            lines[i], lines[j] = lines[j], lines[i]
        return lines[: self.n] != self.lines

    def _digest(self, draw, claim, lines):
        data, at = claim["data"], draw.randrange(64)
        new = draw.choice("0123456789abcdef".replace(data["sha256"][at], ""))
        data["sha256"] = data["sha256"][:at] + new + data["sha256"][at + 1 :]
        return True

    def _point(self, draw, claim, lines):
        """One weight of the point is off by 1: the point leaves its box, or is worth more."""
        w = claim["point"]["w"]
        k, j = draw.randrange(len(w)), draw.randrange(self.program.width)
        moved = vector(w[k], self.program.width)
        moved[j] += draw.choice((-1, 1))
        w[k] = [numeral(v) for v in moved]
        return True

    def _number(self, field, way, draw, claim, lines):
        """Value or gap lower, bound higher, by three units in the last place or by more."""
        old = number(claim["claim"][field])
        size = max(abs(old), abs(number(claim["claim"]["value"])) * _LAST) or _LAST
        claim["claim"][field] = numeral(old + way * 3 * size * Fraction(1, 2 ** draw.choice((52, 51, 30))))
        return True

    def _multiplier(self, way, draw, claim, lines):
        """Signs, caps, balance, shares of faces, or the pull that a group holds, broken by some bits."""
        told, program, step = claim["multipliers"], self.program, Fraction(1, 2 ** draw.randrange(60))
        k, i = draw.randrange(program.faces), draw.randrange(self.n)
        if way in ("shares", "held"):
            if way not in told:
                return False
            if way == "shares":
                told["shares"][k] = numeral(number(told["shares"][k]) + draw.choice((-1, 1)) * step)
            else:
                held = vector(told["held"][k], program.width)
                held[0] = (program.group or 1) * (1 + step)
                told["held"][k] = [numeral(v) for v in held]
            return True
        rows = draw.choice(program.rows)
        m = [vector(part, self.n) for part in told["rows"][rows.name]]
        if way == "sign" or k not in rows.at[i]:
            m[k][i] = -step if k in rows.at[i] else step
        elif way == "cap" and rows.cap[i] < math.inf:
            m[k][i] = rows.cap[i] + step
        elif program.intercept or rows.loss == "linear":
            m[k][i] += draw.choice((-1, 1)) * step * (m[k][i] or 1)
        else:
            return False
        told["rows"][rows.name][k] = [numeral(v) for v in m[k]]
        return True

    def _field(self, draw, claim, lines):
        """A field of another kind."""
        place = draw.choice([place for place in _places(claim) if not _OPTIONAL & set(place)])
        holder = claim
        for key in place[:-1]:
            holder = holder[key]
        old, new = holder[place[-1]], draw.choice((None, True, "", [], {}, 1.5, "nan"))
        holder[place[-1]] = new
        return bool(old != new)

    def _parameter(self, draw, claim, lines):
        """Prices, caps, kinks, kernels: raised, the point is worth more; lowered, less is proven."""
        program = claim["program"]
        factor = 1 + Fraction(draw.choice((-1, 1)), 2 ** draw.randrange(1, 20))
        # A row without slack or multipliers may be another, and the claim is as true if the point keeps it.
        used = claim["multipliers"]["rows"]
        rows = [r for r in program["rows"] if r["cap"] != "inf"]
        rows = [r for r in rows if any(any(vector(part, self.n)) for part in used[r["name"]])]
        row = draw.choice(rows or [{}])
        fields = [(row, name) for name in ("kink", "cap") if row]
        fields += [(program["size"], name) for name in ("factor", "l1", "group") if name in program["size"]]
        fields += [(program["features"], name) for name in ("gamma", "coef0") if name in program["features"]]
        holder, name = draw.choice(fields)
        old = holder[name]
        values = [value for value in _values(old) if value != "inf"]
        if isinstance(old, dict) or len(values) < len(_values(old)) or not any(map(number, values)):
            return False
        holder[name] = _multiplied(old, factor)
        return number(claim["claim"]["value"]) > 0


def _values(told):
    """Return the numbers of a list, of lists in it, or the number itself."""
    return [value for part in told for value in _values(part)] if isinstance(told, list) else [told]


def _multiplied(told, factor):
    """Return the same with every number multiplied."""
    if isinstance(told, list):
        return [_multiplied(part, factor) for part in told]
    return numeral(number(told) * factor)


def _places(node, path=()):
    """Yield every place of a claim, by fields alone: lists are one place."""
    for key, below in node.items():
        yield (*path, key)
        if isinstance(below, dict):
            yield from _places(below, (*path, key))


def corrupted(told, draw):
    """Return a file with one number, text or length of its claim changed, but for its titles."""
    found = copy.deepcopy(told)
    places = []

    def walk(node, path):
        for key, below in node.items() if isinstance(node, dict) else enumerate(node):
            if isinstance(below, (dict, list)):
                walk(below, (*path, key))
            if key != "title":
                places.append((*path, key))

    walk(found["claims"][0], ())
    groups = sorted({path[0] for path in places})
    path = draw.choice([p for p in places if p[0] == draw.choice(groups)] or places)
    holder = found["claims"][0]
    for key in path[:-1]:
        holder = holder[key]
    old = holder[path[-1]]
    if isinstance(old, bool):
        new = not old
    elif isinstance(old, int):
        new = old + draw.choice((-1, 1))
    elif isinstance(old, str) and old:
        digits = "0123456789" if "/" in old else "0123456789abcdef/p-"
        k = draw.choice([k for k, digit in enumerate(old) if "/" not in old or digit.isdigit()])
        new = old[:k] + draw.choice(digits) + old[k + 1 :]
    else:
        new = None
    if new is None or draw.random() < 0.1:
        del holder[path[-1]]
    else:
        holder[path[-1]] = new
    return found
