"""Check a claim about a large-margin classifier in exact arithmetic: ``python check.py claim.json data``.

This file needs Python 3.11 and nothing else; copy it where you like. ``--help`` says how to run it. FORMAT.md
describes the claim and the data files, and has the mathematics: the program, the bound that multipliers
prove, the price of a face, rays and trees.

A double is a whole number times a power of two, so sums and products are exact. exp, ln and roots alone are
computed, and taken to be within UNIT = 2^-128.
"""

import argparse
import csv
import hashlib
import json
import re
import signal
import struct
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from decimal import Context, Decimal
from fractions import Fraction
from math import ceil, gcd, inf, isfinite, isqrt, lcm, nextafter
from operator import mul, sub, truediv
from time import process_time
from typing import Any

Vector = list[Fraction]
Json = Any  # what a claim holds
Cells = dict[int, float]  # a sample: what is not 0, by column
Held = dict[str, list[Vector]]  # multipliers, by family and face

BITS, WORK, MOST_BITS = 128, 192, 20_000  # of results, on the way, and of numbers and denominators in a claim
UNIT, ZERO = Fraction(1, 1 << BITS), Fraction(0)
RATIO = re.compile(r"-?\d{1,4000}(/0*[1-9]\d{0,3999})?", re.ASCII)
HEX = re.compile(r"(-?)0x([0-9a-f]{1,4000})p([+-]?\d{1,5})", re.ASCII)
DECIMAL = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d{1,3})?", re.ASCII)  # in the data
MOST_FILE, MOST_LINE = 64 << 20, 16 << 20  # bytes of a claim file, and of a line of the data
MOST_FACES, MOST_FEATURES, MOST_LEVELS = 10_000, 2_000_000, 400  # the last: of a tree
MOST_NUMBERS = 5_000_000  # multipliers, scores and weights at once, each some 100 bytes
SECONDS, MEMORY = 50, 1_000_000_000  # of the processor, and bytes
HELP = """\
Prove every claim of the file CLAIM (JSON, written by polyopt) about the samples in DATA, a CSV table or an
svmlight file, in exact arithmetic, or refuse it. A claim says that a point of a large-margin classifier's
program is worth at most a value, and that no point is worth less than a bound; or that no point keeps the
constraints. Each step that holds is printed. The last line is "Every step holds.", or it begins with
"Refused:" and says why. FORMAT.md describes the claim."""
STATUS = "exit status: 0 if every step holds, 1 if a claim is refused, 2 for wrong arguments"


class Refused(Exception):
    """The claim is not proven; the text says why."""


def demand(holds: Json, why: str) -> None:
    if not holds:
        raise Refused(why)


def shown(text: Json) -> str:
    """A text of a file as messages quote it: short, in ASCII, without control characters."""
    return ascii(text) if len(text) <= 60 else ascii(text[:60]) + "..."


def rounded(value: Fraction, up: bool) -> str:
    """The nearest double that is not below a number, or not above it."""
    if abs(value) >= 1 << 1023:
        return f"a number of about {value.numerator.bit_length() - value.denominator.bit_length()} bits"
    found = float(value)
    wrong = found < value if up else found > value
    return repr(nextafter(found, inf if up else -inf) if wrong else found)


def is_number(given: Json) -> bool:
    """True for a whole number of less than 64 bits, "p/q", or "0x1fp-3", which is 31/8."""
    if type(given) is int:
        return given.bit_length() < 64
    return type(given) is str and bool(RATIO.fullmatch(given) or HEX.fullmatch(given))


# Forms of what a claim holds: a type; a text or a number itself; [the form of all elements]; {field: form},
# where "field?" may be missing and str is any field; alternatives in a tuple; or a test of a value.
VECTOR: Json = (is_number, [is_number], {"at": [int], "is": [is_number]})
LIMIT = (is_number, "inf", "-inf")
LIMITS: Json = (LIMIT, [LIMIT], {"at": [int], "is": [LIMIT]})
PRICE, RANGE = (VECTOR, {"faces": [VECTOR]}), (LIMITS, {"faces": [LIMITS]})
CAP, LESS, FACES = (is_number, "inf"), (int, "none"), ("all", "none", "one", int, [int])
DATA = {
    "features": int, "labels": {"-1": str, "+1": str}, "rows": [[int]], "sha256": str,
    "table?": {"separator": str, "header": bool, "target": int},
    "shift?": VECTOR, "divide?": VECTOR, "factor?": VECTOR, "times?": VECTOR,
}  # fmt: skip
KERNELS: Json = (
    {"kernel": "linear"}, {"kernel": "rbf", "gamma": is_number},
    {"kernel": "poly", "gamma": is_number, "coef0": is_number, "degree": int},
)  # fmt: skip
BY_WEIGHT = ({"kind": ("plain", "lifted")}, *({"kind": "expansion"} | kernel for kernel in KERNELS))
BY_KERNEL = tuple({"kind": "kernel"} | kernel for kernel in KERNELS)
SQUARES = {"kind": ("square", "worst"), "variance?": {"share": is_number, "weights": VECTOR}}
SIZE = SQUARES | {
    "factor": PRICE, "l1?": PRICE, "count?": PRICE, "low?": RANGE, "high?": RANGE, "group?": is_number,
    "groups?": VECTOR, "whole?": int,
}  # fmt: skip
ROW = {
    "name": str, "side": ("label", 1, -1), "kink": is_number, "cap": (CAP, [CAP]), "at?": (FACES, [FACES]),
    "less?": (LESS, [LESS]), "loss?": ("hinge", "logistic", "linear"),
}  # fmt: skip
ROWS = [(ROW | {"pays?": ("sum", "worst")}, ROW | {"pays": "soft", "sharp": is_number})]
PROGRAM = {"faces": int, "intercept": bool, "rows": ROWS, "constant?": is_number}
MULTIPLIERS = {str: [VECTOR]}
LEAF = {"rows?": MULTIPLIERS, "shares?": VECTOR, "held?": [VECTOR]}
TREE = (LEAF, *({"rows?": MULTIPLIERS, way: int, "ways": [dict]} for way in ("sample", "weight")))
PROVEN = {
    "title": str, "data": DATA,
    "program": (
        PROGRAM | {"features": BY_KERNEL, "size": SQUARES | {"factor": is_number}},
        PROGRAM | {"features": BY_WEIGHT, "size": SIZE},
    ),
}  # fmt: skip
BOUNDS = {
    "kind": "bounds", "point": {"w": [VECTOR], "b?": VECTOR}, "multipliers": dict,
    "claim": {"value": is_number, "bound": is_number, "gap": is_number},
}  # fmt: skip
RAY = {"kind": "infeasible", "point?": {}, "multipliers": {"rows": MULTIPLIERS}, "claim?": {}}
CLAIM = (PROVEN | BOUNDS, PROVEN | RAY)
FILE = {"format": "polyopt claim", "version": (1, 2), "claims": [dict]}


def misfit(value: Json, form: Json) -> str | None:
    """The place at which a value leaves a form, such as ".size.factor"; None if it has the form."""
    if type(form) is tuple:
        found = []
        for one in form:
            place = misfit(value, one)
            if place is None:
                return None
            found.append(place)
        return max(found, key=lambda place: (not place.endswith((".kind", ".kernel", ".pays")), len(place)))
    if type(form) is type:
        return None if type(value) is form else ""
    if callable(form):
        return None if form(value) else ""
    if type(value) is not type(form):
        return ""
    if type(form) is list:
        places = ((k, misfit(below, form[0])) for k, below in enumerate(value))
        return next((f"[{k}]{place}" for k, place in places if place is not None), None)
    if type(form) is not dict:
        return None if value == form else ""
    for name, below in value.items():
        known = form.get(str) or (None if name.endswith("?") else form.get(name, form.get(f"{name}?")))
        place = " (unknown)" if known is None else misfit(below, known)
        if place is not None:
            return f".{name if name in form else shown(name)}{place}"
    missing = (name for name in form if type(name) is str and name[-1] != "?" and name not in value)
    return next((f".{name} (missing)" for name in missing), None)


def read(value: Json, form: Json, what: str) -> Json:
    """The value, if it has the form by its types: True and 1.0 are no 1."""
    place = misfit(value, form)
    demand(place is None, f"{what}{place} is not as FORMAT.md says")
    return value


def parsed(text: str) -> Json:
    """The JSON value of a text without decimal points, constants that are no numbers, and fields twice."""

    def refused(number: str) -> Any:
        raise Refused(f"{shown(number)} is not a whole number")

    def whole_number(digits: str) -> int:
        return int(digits) if len(digits) <= 20 else refused(digits)

    def once(pairs: list[tuple[str, Json]]) -> Json:
        found = {}
        for name, value in pairs:
            if name in found:
                raise Refused(f"the field {shown(name)} stands twice in an object")
            found[name] = value
        return found

    return json.loads(
        text, parse_float=refused, parse_constant=refused, parse_int=whole_number, object_pairs_hook=once
    )


def plain(text: Json) -> str | Fraction:
    """A label: numbers that are written in two ways are one."""
    text = str(text).strip()
    return Fraction(text) if len(text) <= 400 and DECIMAL.fullmatch(text) else text


def number(given: Json, ends: bool = False) -> Fraction:
    """The number that an element of a claim stands for; of ends also one of the infinities."""
    if ends and given in ("inf", "-inf"):
        return float(given)  # type: ignore[return-value]
    found = HEX.fullmatch(given) if type(given) is str else None
    if not found:
        return Fraction(given)
    top, power = int(found[1] + found[2], 16), int(found[3])
    demand(top.bit_length() + abs(power) <= MOST_BITS, f"a number has more than {MOST_BITS} bits")
    return Fraction(top << max(power, 0), 1 << max(-power, 0))


def vector(given: Json, size: int, what: str, ends: bool = False, old: Json = None) -> Any:
    """A list; or {"at": places, "is": numbers}, elsewhere what is old or zeros; or one number for all."""
    if type(given) is not dict:
        demand(type(given) is not list or len(given) == size, f"{what} has not {size} numbers")
        return [number(v, ends) for v in given] if type(given) is list else [number(given, ends)] * size
    at, values, found = given["at"], given["is"], list(old or [ZERO] * size)
    demand(all(0 <= k < size for k in at), f"{what}: a place is out of range")
    demand(len(set(at)) == len(at) == len(values), f"{what}: places and numbers do not match")
    for k, value in zip(at, values):
        found[k] = number(value, ends)
    return found


def whole(values: Vector) -> tuple[list[int], int]:
    """Whole numbers, and what they are over."""
    den = 1
    different = {value.denominator for value in values}
    for other in different:
        den = lcm(den, other) if den % other else den
        demand(den.bit_length() <= MOST_BITS, "the denominators have no small common multiple")
    times = {other: den // other for other in different}
    return [v.numerator * times[v.denominator] for v in values], den


def dot(a: Vector, b: Vector) -> Fraction:
    (p, q), (r, t) = whole(a), whole(b)
    return Fraction(sum(map(mul, p, r)), q * t)


# decimal rounds ln correctly.
DIGITS, MORE_DIGITS = Context(prec=50), Context(prec=60)
LN2 = int(Fraction(MORE_DIGITS.ln(Decimal(2))) * (1 << WORK))  # times 2^192


def log(x: Fraction) -> Fraction:
    """The logarithm, within UNIT for numbers of at most MOST_BITS bits."""
    return Fraction(DIGITS.ln(DIGITS.divide(Decimal(x.numerator), Decimal(x.denominator))))


def exp_minus(top: int, den: int) -> int:
    """A whole number n with |exp(-top/den) - n UNIT| <= UNIT, for top >= 0.

    -top/den = s - k ln 2 with 0 < s <= ln 2; exp(s) is the eighth square of 25 terms of the series at s/256.
    Each step loses a few 2^-192, and each square doubles what was lost: together less than 2^-170.
    """
    if top >= 90 * den:
        return 0  # exp(-90) < UNIT
    t = (top << WORK) // den
    k = t // LN2 + 1
    s, total, term = k * LN2 - t >> 8, 1 << WORK, 1 << WORK
    for j in range(1, 25):
        term = (term * s >> WORK) // j
        total += term
    for _ in range(8):
        total = total * total >> WORK
    return total >> k + WORK - BITS


def soft_max(t: Vector, sharp: Fraction) -> Fraction:
    """A number from (1/g) ln sum exp(g t) to 2 (k + 1) UNIT / g above it, for k numbers t."""
    far = [sharp * (max(t) - v) for v in t]
    return max(t) + (log(UNIT * sum(exp_minus(v.numerator, v.denominator) + 1 for v in far)) + UNIT) / sharp


# What a loss pays for t, or more; ln(1 + e^t) is ln(e^0 + e^t).
PHI: dict[Json, Callable[[Fraction], Fraction]] = {
    "hinge": lambda t: max(ZERO, t),
    "logistic": lambda t: soft_max([ZERO, t], Fraction(1)),
    "linear": lambda t: t,
}


def entropy(shares: Vector) -> Fraction:
    """A number from H to 2 UNIT below it, of shares that add up to 1."""
    return -sum((p * (log(p) + UNIT) for p in shares if p > 0), ZERO)


def root(x: Fraction) -> Fraction:
    """A number from the square root to UNIT above it."""
    return UNIT * (isqrt((x.numerator << 2 * BITS) // x.denominator) + 1) if x else x


def real(text: str) -> float:
    """The finite number that a cell of the data stands for."""
    if not (DECIMAL.fullmatch(text) and isfinite(float(text))):
        raise Refused(f"{shown(text)} in the data is not a finite number")
    return float(text)


def lines_of(path: str) -> Iterator[bytes]:
    """The lines of a file, each with its end."""
    with open(path, "rb") as file:
        for k, line in enumerate(iter(lambda: file.readline(MOST_LINE), b"")):
            demand(len(line) < MOST_LINE, f"the data have a line of more than {MOST_LINE} bytes")
            yield line if k else line.removeprefix(b"\xef\xbb\xbf")


def from_svmlight(path: str) -> Iterator[tuple[Cells, Any]]:
    """Samples and labels of lines "label column:value ...", columns from 1 and rising, comments from # on."""
    for line in lines_of(path):
        words, row, last = line.partition(b"#")[0].decode().split(), {}, 0
        for word in words[1:]:
            place, _, value = word.partition(":")
            if not (re.fullmatch("[0-9]{1,10}", place) and int(place) > last):
                raise Refused(f"the data have {shown(word)} where a column above {last} is to come")
            last = int(place)
            row[last - 1] = real(value)
        if words:
            real(words[0])
            yield row, words[0]


def from_table(path: str, separator: str, header: bool, target: int) -> Iterator[tuple[Cells, Any]]:
    """Samples and labels of a CSV table, with the label in the column `target`."""
    with open(path, encoding="utf-8-sig", newline="") as file:
        lines = iter(lambda: file.readline(MOST_LINE), "")
        rows = ([cell.strip() for cell in row] for row in csv.reader(lines, delimiter=separator, strict=True))
        rows = (row for row in rows if row not in ([], [""]))
        width = len(next(rows, [])) if header else 0
        for row in rows:
            width = width or len(row)
            demand(len(row) == width, f"a row of the table has {len(row)} cells, the first one {width}")
            demand(0 <= target < width and row[target], "a label is missing")
            label = row.pop(target)
            yield dict(enumerate(map(real, row))), label


def prepared(cells: Cells, m: int, steps: list[tuple[Any, list[float]]]) -> Cells:
    """A sample as the machine saw it: (x - shift) / divide * factor in doubles, each rounded to nearest."""
    demand(max(cells, default=0) < m, f"there are more than {m} features")
    values: Any = cells.values()
    for step, by in steps:
        demand(len(cells) == m or step is not sub, f"there are not {m} features")
        values = map(step, values, map(by.__getitem__, cells))
    found = dict(zip(cells, values))
    demand(all(map(isfinite, found.values())), "the data hold a number that is not finite")
    return {j: found[j] for j in sorted(found) if found[j]}


def digest(rows: list[Cells], m: int, y: list[int]) -> str:
    """SHA-256 of n, m and, for each sample, y, the number of cells that are not 0, their columns, doubles."""
    made = hashlib.sha256(struct.pack("<QQ", len(rows), m))
    for row, label in zip(rows, y):
        made.update(struct.pack(f"<bQ{len(row)}Q{len(row)}d", label, len(row), *row.keys(), *row.values()))
    return made.hexdigest()


class Samples:
    """Samples as whole numbers over one denominator; lifted, each ends with a 1."""

    def __init__(self, rows: list[Cells], m: int, lifted: bool):
        self.den = den = lcm(*{x.as_integer_ratio()[1] for row in rows for x in row.values()})
        self.n, self.m, (place, one) = len(rows), m + lifted, ([m], [den]) if lifted else ([], [])
        ratios = ((row, [x.as_integer_ratio() for x in row.values()]) for row in rows)
        self.rows = [([*row, *place], [p * (den // q) for p, q in own] + one) for row, own in ratios]
        self.columns: dict[int, list[int]] = {}  # of the kernel matrix

    def times(self, w: Vector) -> Vector:
        """X w."""
        (v, den), found = whole(w), []
        for at, x in self.rows:
            found.append(Fraction(sum(map(mul, x, map(v.__getitem__, at))), den * self.den))
        return found

    def pull(self, beta: Vector) -> Vector:
        """X' beta."""
        (factors, den), found = whole(beta), [0] * self.m
        for b, (at, x) in zip(factors, self.rows):
            for j, value in zip(at, x) if b else ():
                found[j] += b * value
        return [Fraction(v, den * self.den) for v in found]

    def gram(self, c: Vector, kernel: Json) -> tuple[Vector, Fraction]:
        """K c, and how far its numbers may be from the true ones."""
        kind, (factors, under), found = kernel["kernel"], whole(c), [0] * self.n
        if kind == "linear":
            return self.times(self.pull(c)), ZERO
        gamma, norms = number(kernel["gamma"]), [sum(map(mul, x, x)) for _, x in self.rows]
        top, low = gamma.numerator, gamma.denominator * self.den**2
        demand(top > 0 and (top * low).bit_length() < 10_000, "gamma is not positive, or no double")
        den, plus, degree = 1 << BITS, 0, 1
        if kind == "poly":
            coef0, degree = number(kernel["coef0"]), kernel["degree"]
            demand(1 <= degree <= 20, "the degree is from 1 to 20")
            plus, top, low = coef0.numerator * low, top * coef0.denominator, low * coef0.denominator
            den = low**degree
        for j in (j for j, factor in enumerate(factors) if factor):
            column = self.columns.get(j)
            if not column:
                row = [0] * self.m
                for k, value in zip(*self.rows[j]):
                    row[k] = value
                inner = [sum(map(mul, x, map(row.__getitem__, at))) for at, x in self.rows]  # times den^2
                if kind == "rbf":
                    away = (norms[j] + b - 2 * a for a, b in zip(inner, norms))
                    column = [exp_minus(top * square, low) for square in away]
                else:
                    column = [(top * a + plus) ** degree for a in inner]
                size = 60 + max(map(int.bit_length, column)) // 8  # bytes of a number
                if len(self.columns) * self.n * size < MEMORY // 4:  # the leaves of a tree want it again
                    self.columns[j] = column
            found = [f + factors[j] * k for f, k in zip(found, column)]
        off = UNIT * sum(map(abs, c)) if kind == "rbf" else ZERO
        return [Fraction(v, under * den) for v in found], off


def each(given: Json, n: int, read: Callable[[Json], Any]) -> list[Any]:
    """A value for each sample, from a list or from one value for all."""
    if type(given) is not list:
        return [read(given)] * n
    demand(len(given) == n, "a family's caps and faces must be told for every sample")
    return [read(v) for v in given]


class Rows:
    """A family of rows: side, kink, caps (None for infinite), and the faces at which a sample answers."""

    def __init__(self, told: Json, y: list[int], faces: int):
        known: Json = {"all": range(faces), "none": (), "one": ()}

        def places(a: Json) -> Any:
            found = dict.fromkeys(a if type(a) is list else [a]) if type(a) is not str else known[a]
            there = all(0 <= k < faces for k in found) and (type(a) is not list or len(found) == len(a))
            demand(there, f"{self.title}: there is no such face")
            return found  # a sequence in which a face is soon found

        n, side, self.name, self.title = len(y), told["side"], told["name"], shown(told["name"])
        self.loss, self.pays = told.get("loss", "hinge"), told.get("pays", "sum")
        self.kink, self.sharp = number(told["kink"]), number(told.get("sharp", 0))
        self.side = y if side == "label" else [side] * n
        self.cap = each(told["cap"], n, lambda c: None if c == "inf" else number(c))
        self.at = each(told.get("at", "all"), n, places)
        self.one = each(told.get("at", "all"), n, lambda a: a == "one")
        self.less = each(told.get("less", "none"), n, places)
        demand(min((c for c in self.cap if c is not None), default=0) >= 0, "a cap is negative")
        simple = self.loss == "hinge" and self.pays != "soft"
        demand(simple or None not in self.cap, "an infinite cap is of a hinge that is not soft")
        positive = self.loss != "linear" and None not in self.cap
        demand(positive or not any(self.one), "at one of the faces a sample pays 0 or more")
        demand(self.pays != "soft" or self.sharp > 0, "the sharpness is not positive")

    def value(self, f: list[Vector], off: Fraction) -> Fraction:
        """The losses at scores that are each within off: their sum, or more."""
        total, phi = ZERO, PHI[self.loss]
        for i, (s, cap, at, less) in enumerate(zip(self.side, self.cap, self.at, self.less)):
            start = self.kink + off + sum(s * f[k][i] + off for k in less)
            t = [start - s * f[k][i] for k in (range(len(f)) if self.one[i] else at)]
            if cap is None:
                demand(max(t, default=0) <= 0, f"the point breaks the row {self.title} of sample {i}")
            elif cap and t:
                if self.one[i]:
                    t = [min(t)]
                elif self.pays != "sum":
                    t = [max(t) if self.pays == "worst" else soft_max(t, self.sharp)]
                total += cap * sum(map(phi, t))
        return total

    def gain(self, m: list[Vector]) -> Fraction:
        """The gain of multipliers (by face) in the bound, if they keep their signs and caps."""
        linear, logistic = self.loss == "linear", self.loss == "logistic"
        total = self.kink * sum(self.each_kept(k, *whole(part)) for k, part in enumerate(m))
        if self.loss == "hinge" and self.pays == "sum":
            return total
        for i, (cap, at, own) in enumerate(zip(self.cap, self.at, zip(*m))):
            if any(own) or (linear and at):
                every = sum(own)
                parts = [own[k] for k in at] if self.pays == "sum" else [every]
                kept = cap is None or (max(parts) <= cap and (min(parts) == cap or not linear))
                demand(kept, f"{self.title}: sample {i} is above its cap, or below it where it may not be")
                if logistic and cap:
                    total += sum(cap * entropy([p / cap, 1 - p / cap]) for p in parts)
                if self.pays == "soft" and every:
                    total += every / self.sharp * entropy([v / every for v in own])
        return total

    def each_kept(self, k: int, own: list[int], den: int) -> Fraction:
        """The sum of multipliers at a face, if each keeps its sign and its cap by itself."""
        demand(min(own) >= 0, f"{self.title}: a multiplier is negative")
        for i, v in enumerate(own):
            if v:
                cap = self.cap[i]
                if k not in self.at[i]:
                    raise Refused(f"{self.title}: sample {i} has no row where it has a multiplier")
                if cap is not None and v * cap.denominator > cap.numerator * den:
                    raise Refused(f"{self.title}: sample {i} is above its cap")
        return Fraction(sum(own), den)

    def pull(self, m: list[Vector], betas: list[Vector]) -> None:
        """Add to the betas what multipliers (by face) are, with their sides."""
        for beta, part in zip(betas, m):
            beta[:] = [(b + v if s > 0 else b - v) if v else b for b, s, v in zip(beta, self.side, part)]
        for i, less in enumerate(self.less):
            for k in less:
                betas[k][i] -= self.side[i] * sum(part[i] for part in m)


def conjugate(v: Fraction, price: tuple[Fraction, ...], share: Fraction, off: Fraction) -> Fraction:
    """The largest v w - share h w^2 - l |w| - (n if w is not 0) in the box, where v is within off."""
    h, least, count, low, high = price
    over = max(abs(v) - least, ZERO)
    best: Any = over / (2 * h * share) if h and share else inf if over else ZERO
    w = min(max(best if v > 0 else -best, low), high)
    demand(abs(w) < inf, "a weight that has no price is pulled")
    found = v * w - share * h * w * w - least * abs(w) - count
    if off:
        reach = max(abs(low), abs(high))
        demand(reach < inf, "a weight without ends has features that are not exact")
        found += off * reach
    return max(found, ZERO) if count and low <= 0 <= high else found


class Program:
    """Features, size and rows: the value of a point, and the bound of multipliers."""

    def __init__(self, told: Json, rows: list[Cells], m: int, y: list[int]):
        self.features, self.size, self.y = told["features"], told["size"], y
        self.kind, self.shape = self.features["kind"], self.size["kind"]
        self.faces, self.intercept = told["faces"], told["intercept"]
        by_sample, weighed = self.kind in ("kernel", "expansion"), self.kind != "kernel"
        demand(1 <= self.faces <= (1 if by_sample else MOST_FACES), "the number of faces is out of range")
        n = len(rows)
        self.width = n if by_sample else m + (self.kind == "lifted")
        count = self.faces * (n + self.width) * (len(told["rows"]) + 2)
        demand(count <= MOST_NUMBERS, f"the program has more than {MOST_NUMBERS} multipliers and weights")
        self.samples = Samples(rows, m, self.kind == "lifted")
        self.constant = number(told.get("constant", 0))
        self.rows = [Rows(row, y, self.faces) for row in told["rows"]]
        demand(len({row.name for row in self.rows}) == len(self.rows), "two families have one name")
        self.leaves, self.choice = 0, [row for row in self.rows if any(row.one)]
        self.is_square = set(self.size) <= {"kind", "factor"} and self.shape == "square"
        if weighed:
            columns = [self.by_face(name) for name in ("factor", "l1", "count", "low", "high")]
            self.prices: list[Any] = [list(zip(*face)) for face in zip(*columns)]
            kept = all(min(h, l1, n) >= 0 and a <= z for face in self.prices for h, l1, n, a, z in face)
            demand(kept, "a price is negative, or a weight has no room")
            self.group, self.most = number(self.size.get("group", 0)), self.size.get("whole")
            demand(self.group >= 0, "a price is negative")
            self.groups = vector(self.size.get("groups", 0), self.width, "groups")
        else:
            self.factor, self.groups, self.most = number(self.size["factor"]), [], None
            psd = number(self.features.get("coef0", 0)) >= 0
            demand(self.factor > 0 and psd, "the factor is not positive, or the kernel not semidefinite")
        self.grouped, self.share = any(self.groups), ZERO
        alike = weighed and all(face == self.prices[0] for face in self.prices)
        alike &= not any(any(r.less) or any(0 < len(a) < self.faces for a in r.at) for r in self.rows)
        demand(not self.choice or (alike and len(self.choice) == 1), "the faces to choose from are not alike")
        if "variance" in self.size:
            self.share, n = number(self.size["variance"]["share"]), self.samples.n
            self.weights = vector(self.size["variance"]["weights"], n, "weights")
            demand(self.share > 0 and min(self.weights) > 0, "the variance has a wrong share or weight")

    def by_face(self, name: str) -> list[Vector]:
        """A vector of the size for each face; they may be one."""
        ends = {"low": "-inf", "high": "inf"}
        told = self.size.get(name, ends.get(name, 0))
        if type(told) is not dict or "faces" not in told:
            return [vector(told, self.width, name, name in ends)] * self.faces
        demand(len(told["faces"]) == self.faces, f"{name} is not told for each face")
        return [vector(part, self.width, name, name in ends) for part in told["faces"]]

    def through(self, c: Vector, out: bool) -> tuple[Vector, Fraction]:
        """The scores of coefficients, without b (out), or the pull of betas; and how far they may be off."""
        if self.kind in ("plain", "lifted"):
            return (self.samples.times(c) if out else self.samples.pull(c)), ZERO
        signs = self.y if self.kind == "expansion" else [1] * len(self.y)
        found, off = self.samples.gram(list(map(mul, c, signs)) if out else c, self.features)
        return found if out else list(map(mul, found, signs)), off

    def spread(self, f: Vector, off: Fraction) -> tuple[Vector, Fraction]:
        """The slopes z of half the variance of scores that are each within off, and the variance, or more."""
        total = sum(self.weights)
        mean = dot(self.weights, f) / total
        z = [p * (v - mean) / total for p, v in zip(self.weights, f)]
        return z, dot(z, f) + off * (2 * sum(map(abs, z)) + off)

    def lengths(self, vectors: list[Vector]) -> dict[Fraction, Fraction]:
        """The squared length of each group of weights of all faces; of those without a group at 0."""
        found = dict.fromkeys(self.groups, ZERO)
        for vector in vectors if self.grouped else []:
            for group, v in zip(self.groups, vector):
                found[group] += v * v
        return found

    def measure(self, k: int, w: Vector, f: Vector, off: Fraction) -> tuple[Fraction, Fraction]:
        """The squares and the other prices of a face, or more."""
        if self.kind == "kernel":
            return self.factor * (dot(w, f) + off * sum(map(abs, w))), ZERO
        inside = all(low <= v <= high for v, (*_, low, high) in zip(w, self.prices[k]))
        demand(inside, "the point is outside its box")
        if self.most is not None:
            tops = whole(w[: self.width - (self.kind == "lifted")])[0]
            kept = max(map(abs, tops), default=0) <= self.most * gcd(*tops)
            demand(kept, "the weights are no such whole numbers times a scale")
        squares = sum((h * v * v for v, (h, *_) in zip(w, self.prices[k]) if v), ZERO)
        return squares, sum((l1 * abs(v) + n for v, (_, l1, n, _, _) in zip(w, self.prices[k]) if v), ZERO)

    def value(self, point: Json) -> tuple[Fraction, list[Vector]]:
        """The objective at the point, or more, if it keeps its constraints; and the slopes of variances."""
        demand(len(point["w"]) == self.faces, "the point has another number of faces")
        faces = [vector(w, self.width, "w") for w in point["w"]]
        b = vector(point.get("b", []), self.faces, "b") if self.intercept else [ZERO] * self.faces
        demand(self.intercept or point.get("b", []) == [], "the point has a b without an intercept")
        outputs = [self.through(w, True) for w in faces]
        sizes = [self.measure(k, w, *output) for k, (w, output) in enumerate(zip(faces, outputs))]
        squares, total = [square for square, _ in sizes], self.constant + sum(other for _, other in sizes)
        total += max(squares) if self.shape == "worst" else sum(squares)
        total += sum(self.group * root(square) for group, square in self.lengths(faces).items() if group)
        spreads = [self.spread(*output) for output in outputs] if self.share else []
        total += self.share / 2 * sum(variance for _, variance in spreads)
        f = [[v + c for v in scores] if c else scores for (scores, _), c in zip(outputs, b)]
        total += sum(rows.value(f, max(off for _, off in outputs)) for rows in self.rows)
        return total, [z for z, _ in spreads]

    def price(self, k: int, beta: Vector, share: Fraction, held: Vector) -> Fraction:
        """The price of a face's multipliers, or more."""
        v, off = self.through(beta, False)
        if self.kind == "kernel":
            return (dot(beta, v) + off * sum(map(abs, beta))) / (4 * self.factor)
        v = [a - q for a, q in zip(v, held)] if held else v
        return sum((conjugate(a, price, share, off) for a, price in zip(v, self.prices[k])), ZERO)

    def known(self, told: Json, above: Held) -> Held:
        """Multipliers by family and face: what a node tells, and elsewhere what the node above has."""
        found = dict(above)
        for name, parts in told.get("rows", {}).items():
            demand(len(parts) == self.faces, f"{shown(name)} is not told for each face")
            old: list[Any] = found.get(name) or [None] * self.faces
            found[name] = [vector(v, self.samples.n, shown(name), False, o) for v, o in zip(parts, old)]
        demand(set(found) == {rows.name for rows in self.rows}, "there must be multipliers of every family")
        return found

    def least(self, told: Json, slopes: list[Vector], above: Held | None = None, used: int = 0) -> Fraction:
        """The bound of multipliers, or the least of all leaves; faces before used have decided samples."""
        if "ways" not in told:
            self.leaves += 1
            gain, price = self.bound(told, slopes, above)
            return gain - price
        ways, known, found = told["ways"], self.known(told, above or {}), []
        demand(("sample" in told) == bool(self.choice), "the tree decides of samples at one face, or weights")
        if self.choice:
            i, rows = told["sample"], self.choice[0]
            may = 0 <= i < self.samples.n and rows.one[i] and not rows.at[i]
            demand(may and len(ways) == min(used + 1, self.faces), f"sample {i} has other ways, or none")
            for k, way in enumerate(ways):
                rows.at[i] = [k]
                found.append(self.least(way, slopes, known, max(used, k + 1)))
            rows.at[i] = []
            return min(found)
        j, constant = told["weight"], self.constant
        demand(self.kind != "kernel" and 0 <= j < self.width and len(ways) == 2, f"weight {j} has no 2 ways")
        h, l1, n, low, high = kept = self.prices[0][j]
        either = ((h, l1, n, ZERO, ZERO), constant), ((h, l1, ZERO, low, high), constant + n)
        for way, changed in zip(ways, either):
            self.prices[0][j], self.constant = changed
            found.append(self.least(way, slopes, known))
        self.prices[0][j], self.constant = kept, constant
        return min(found)

    def bound(self, told: Json, slopes: list[Vector], above: Held | None = None) -> tuple[Fraction, Fraction]:
        """Gain and price of multipliers that keep signs, caps and balance; slopes are of the variance."""
        known, gain, paid = self.known(told, above or {}), self.constant, ZERO
        betas = [[ZERO] * self.samples.n for _ in range(self.faces)]
        for rows in self.rows:
            gain += rows.gain(known[rows.name])
            rows.pull(known[rows.name], betas)
        balanced = not self.intercept or not any(sum(whole(beta)[0]) for beta in betas)
        demand(balanced, "the multipliers are not in balance")
        for beta, z in zip(betas, slopes):
            beta[:] = [b - self.share * v for b, v in zip(beta, z)]
            squares = sum(v * v / p for v, p in zip(z, self.weights))
            paid += self.share / 2 * sum(self.weights) * squares
        shares = [Fraction(1)] * self.faces
        demand(
            ("shares" in told) == (self.shape == "worst"), "shares are for the size worst, and needed there"
        )
        demand(("held" in told) == self.grouped, "what is held is for groups, and needed there")
        if self.shape == "worst":
            shares = vector(told["shares"], self.faces, "shares")
            demand(sum(shares) == 1 and min(shares) >= 0, "the shares do not divide 1")
        held: list[Vector] = [[]] * self.faces
        if self.grouped:
            held = [vector(q, self.width, "held") for q in told["held"]]
            lengths = self.lengths(held)
            kept = len(held) == self.faces and all(s <= (g and self.group) ** 2 for g, s in lengths.items())
            demand(kept, "a group holds more than its price")
        each_face = enumerate(zip(betas, shares, held))
        return gain, paid + sum((self.price(k, *parts) for k, parts in each_face), ZERO)


def doubles(values: Vector, what: str) -> list[float]:
    known = {value: float(value) for value in set(values) if abs(value) < 1 << 1023}
    demand(all(known.get(value) == value for value in values), f"{what} is no vector of doubles")
    return [known[value] for value in values]


def load_samples(told: Json, path: str) -> tuple[list[Cells], int, list[int]]:
    """The samples that a claim is about, as the machine saw them, and their labels -1 and +1."""
    m, runs, labels = told["features"], told["rows"], told["labels"]
    ends = [end for run in runs for end in run]
    demand(all(len(run) == 2 for run in runs) and ends and ends == sorted(ends), "the rows are not in order")
    demand(ends[0] >= 0 and 1 <= m <= MOST_FEATURES, "there are no such samples")
    signs = {plain(labels["-1"]): -1, plain(labels["+1"]): 1}
    demand(len(signs) == 2, "both labels are one")
    kinds = {"shift": sub, "divide": truediv, "factor": mul, "times": mul}
    given = [(name, vector(told[name], m, name)) for name in kinds if name in told]
    steps = [(kinds[name], doubles(by, name)) for name, by in given]
    demand("divide" not in told or all(dict(given)["divide"]), "a divisor is 0")
    is_table = "table" in told
    samples = from_table(path, **told["table"]) if is_table else from_svmlight(path)
    wanted = (k for a, z in runs for k in range(a, z))
    rows, y, at = [], [], next(wanted, None)
    for i, (cells, label) in enumerate(samples):
        demand(len(cells) == m or not is_table, f"the data have {len(cells)} features, not {m}")
        if i == at:
            rows.append(prepared(cells, m, steps))
            y.append(signs.get(plain(label), 0))
            at = next(wanted, None)
    demand(at is None and rows, "there are no such samples")
    demand(0 not in y, "the labels are not those of the claim")
    return rows, m, y


@contextmanager
def refusing(what: str) -> Iterator[None]:
    """Refuse whatever a broken file leads to: it is no proof."""
    try:
        yield
    except (Refused, MemoryError):
        raise
    except Exception as error:
        why = error.strerror if isinstance(error, OSError) else f"{type(error).__name__}: {shown(str(error))}"
        raise Refused(f"{what} cannot be read: {why}") from error


def check(claim: Json, path: str, say: Callable[[str], None]) -> None:
    """Prove a claim step by step, or raise Refused."""
    with refusing("the claim or the data"):
        prove(claim, path, say)


def prove(claim: Json, path: str, say: Callable[[str], None]) -> None:
    told = read(claim, CLAIM, "claim")
    trees = [(told["multipliers"], 0)] if told["kind"] == "bounds" else []
    for tree, level in trees:
        demand(level <= MOST_LEVELS, f"the tree has more than {MOST_LEVELS} levels")
        trees += [(way, level + 1) for way in read(tree, TREE, "tree").get("ways", [])]
    rows, m, y = load_samples(told["data"], path)
    say(f"the data are read: {len(y)} samples of {m} features, {y.count(1)} of them +1")
    demand(digest(rows, m, y) == told["data"]["sha256"], "the samples are not those of the claim")
    say("they have the digest of the claim")
    program, multipliers = Program(told["program"], rows, m, y), told["multipliers"]
    if told["kind"] == "infeasible":
        gain, price = program.bound(multipliers, [])
        hard = all(cap is None for rows in program.rows for cap in rows.cap)
        proven = gain > program.constant and not price
        demand(hard and program.is_square and proven, "the multipliers are no ray")
        say("the multipliers are a ray: no point keeps the rows without slack")
        return
    high, low, gap = (number(told["claim"][name]) for name in ("value", "bound", "gap"))
    value, slopes = program.value(told["point"])
    top, least = rounded(high, True), rounded(low, False)
    demand(value <= high, f"the value is {rounded(value, False)}, above the {top} that is claimed")
    say(f"the point keeps its constraints, and its value is at most {top}, as claimed")
    bound = program.least(multipliers, slopes)
    demand(bound >= low, f"the bound is {rounded(bound, True)}, not {least} as claimed")
    say(f"the multipliers keep signs, caps and balance, and prove {least}, as claimed")
    if program.leaves > 1:
        say(f"so they do in each of {program.leaves} cases, and there is no other")
    demand(high - low <= gap, "the gap is larger than claimed")
    say(f"no point is better by more than {rounded(gap, True)}, as claimed")


def claims_of(path: str) -> Json:
    """The claims in a file, each read by itself later."""
    with refusing(shown(path)), open(path, "rb") as file:
        content = file.read(MOST_FILE + 1)
        demand(len(content) <= MOST_FILE, f"a claim file has at most {MOST_FILE >> 20} MB")
        told = read(parsed(content.decode("utf-8")), FILE, "file of claims")
    demand(1 <= len(told["claims"]) <= 5000, "a file has from 1 to 5000 claims")
    return told["claims"]


def limit(seconds: int) -> None:
    """Let this process take so many seconds of the processor more, and no more than MEMORY."""
    try:
        import resource
    except ImportError:  # Windows has no such limits
        return

    def is_over(*_: Any) -> None:
        signal.signal(signal.SIGXCPU, signal.SIG_IGN)
        raise Refused(f"the claims take more than {seconds} seconds (--seconds allows more)")

    signal.signal(signal.SIGXCPU, is_over)
    for what, most in ((resource.RLIMIT_CPU, seconds + ceil(process_time())), (resource.RLIMIT_AS, MEMORY)):
        hard = resource.getrlimit(what)[1]
        resource.setrlimit(what, (most if hard == resource.RLIM_INFINITY else min(most, hard), hard))


def main(arguments: list[str] | None = None) -> int:
    """The exit status; the arguments of a process of its own, which is limited, are those of the command."""
    parser = argparse.ArgumentParser("check.py", description=HELP, epilog=STATUS)
    seconds = "of the processor, for all claims together (50); these and a gigabyte are no limits on Windows"
    parser.add_argument("--seconds", type=int, default=SECONDS, help=seconds)
    parser.add_argument("claim")
    parser.add_argument("data")
    told = parser.parse_args(arguments)
    if arguments is None:
        limit(told.seconds)
    steps: list[str] = []

    def say(text: str) -> None:
        steps.append(text)
        print(f"{len(steps):3}. {text}: yes")

    try:
        for claim in claims_of(told.claim):
            title = claim.get("title")
            say(f"a claim on {shown(title if type(title) is str else '')} is read")
            check(claim, told.data, say)
    except (Refused, MemoryError, KeyboardInterrupt) as why:
        words = {MemoryError: "the claim takes more than a gigabyte", KeyboardInterrupt: "interrupted"}
        print(f"Refused: {words.get(type(why), why)}")
        return 130 if isinstance(why, KeyboardInterrupt) else 1
    print("Every step holds.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
