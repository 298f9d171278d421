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
Cells = dict[int, float]  # entries of a sample that are not 0, by column
Multipliers = dict[str, list[Vector]]  # by family and face

BITS, WORK, MAX_BITS = 128, 192, 20_000  # of results, on the way, and of numbers and denominators in a claim
UNIT, ZERO = Fraction(1, 1 << BITS), Fraction(0)
RATIO = re.compile(r"-?\d{1,4000}(/0*[1-9]\d{0,3999})?", re.ASCII)
HEX = re.compile(r"(-?)0x([0-9a-f]{1,4000})p([+-]?\d{1,5})", re.ASCII)
DECIMAL = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d{1,3})?", re.ASCII)  # in the data
MAX_FILE_BYTES, MAX_LINE_BYTES = 64 << 20, 16 << 20  # bytes of a claim file, and of a line of the data
MAX_FACES, MAX_FEATURES, MAX_TREE_LEVELS = 10_000, 2_000_000, 400  # the last: of a tree
MAX_NUMBERS = 5_000_000  # multipliers, scores and weights at once, each some 100 bytes
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


def quoted(text: Json) -> str:
    """Quote a text of a file for messages: short, in ASCII, without control characters."""
    return ascii(text) if len(text) <= 60 else ascii(text[:60]) + "..."


def rounded(value: Fraction, up: bool) -> str:
    """Return the nearest double that is not below a number (up), or not above it."""
    if abs(value) >= 1 << 1023:
        return f"a number of about {value.numerator.bit_length() - value.denominator.bit_length()} bits"
    found = float(value)
    wrong = found < value if up else found > value
    return repr(nextafter(found, inf if up else -inf) if wrong else found)


def is_number(value: Json) -> bool:
    """Return True for a whole number of less than 64 bits, "p/q", or "0x1fp-3", which is 31/8."""
    if type(value) is int:
        return value.bit_length() < 64
    return type(value) is str and bool(RATIO.fullmatch(value) or HEX.fullmatch(value))


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
    """Return the place at which a value leaves a form, such as ".size.factor"; None if it has the form."""
    if type(form) is tuple:
        misfits = []
        for alternative in form:
            place = misfit(value, alternative)
            if place is None:
                return None
            misfits.append(place)
        return max(misfits, key=lambda place: (not place.endswith((".kind", ".kernel", ".pays")), len(place)))
    if type(form) is type:
        return None if type(value) is form else ""
    if callable(form):
        return None if form(value) else ""
    if type(value) is not type(form):
        return ""
    if type(form) is list:
        places = ((k, misfit(element, form[0])) for k, element in enumerate(value))
        return next((f"[{k}]{place}" for k, place in places if place is not None), None)
    if type(form) is not dict:
        return None if value == form else ""
    for name, element in value.items():
        expected = form.get(str) or (None if name.endswith("?") else form.get(name, form.get(f"{name}?")))
        place = " (unknown)" if expected is None else misfit(element, expected)
        if place is not None:
            return f".{name if name in form else quoted(name)}{place}"
    missing = (name for name in form if type(name) is str and name[-1] != "?" and name not in value)
    return next((f".{name} (missing)" for name in missing), None)


def checked(value: Json, form: Json, what: str) -> Json:
    """Return the value if it has the form, also by its types: True and 1.0 are no 1."""
    place = misfit(value, form)
    demand(place is None, f"{what}{place} is not as FORMAT.md says")
    return value


def parse_json(text: str) -> Json:
    """Read JSON, and refuse decimal points, NaN, Infinity, and a field that stands twice in an object."""

    def refuse(number: str) -> Any:
        raise Refused(f"{quoted(number)} is not a whole number")

    def to_integer(digits: str) -> int:
        return int(digits) if len(digits) <= 20 else refuse(digits)

    def unique_fields(pairs: list[tuple[str, Json]]) -> Json:
        fields = {}
        for name, value in pairs:
            if name in fields:
                raise Refused(f"the field {quoted(name)} stands twice in an object")
            fields[name] = value
        return fields

    return json.loads(
        text, parse_float=refuse, parse_constant=refuse, parse_int=to_integer, object_pairs_hook=unique_fields
    )


def plain(text: Json) -> str | Fraction:
    """Return a label as it is compared: numbers by value, other labels as text."""
    text = str(text).strip()
    return Fraction(text) if len(text) <= 400 and DECIMAL.fullmatch(text) else text


def number(value: Json, infinite: bool = False) -> Fraction:
    """Read a number of a claim; `infinite` allows the infinities."""
    if infinite and value in ("inf", "-inf"):
        return float(value)  # type: ignore[return-value]
    match = HEX.fullmatch(value) if type(value) is str else None
    if not match:
        return Fraction(value)
    mantissa, power = int(match[1] + match[2], 16), int(match[3])
    demand(mantissa.bit_length() + abs(power) <= MAX_BITS, f"a number has more than {MAX_BITS} bits")
    return Fraction(mantissa << max(power, 0), 1 << max(-power, 0))


def vector(value: Json, size: int, what: str, infinite: bool = False, before: Json = None) -> Any:
    """Read a vector: a list, one number for all, or {"at": places, "is": numbers}.

    Other places of the last have the numbers of `before`, or zeros.
    """
    if type(value) is list:
        demand(len(value) == size, f"{what} has not {size} numbers")
        return [number(v, infinite) for v in value]
    if type(value) is not dict:
        return [number(value, infinite)] * size
    places, numbers, entries = value["at"], value["is"], list(before or [ZERO] * size)
    demand(all(0 <= k < size for k in places), f"{what}: a place is out of range")
    demand(len(set(places)) == len(places) == len(numbers), f"{what}: places and numbers do not match")
    for k, element in zip(places, numbers):
        entries[k] = number(element, infinite)
    return entries


def common_denominator(values: Vector) -> tuple[list[int], int]:
    """Return integers and their common denominator."""
    den = 1
    denominators = {value.denominator for value in values}
    for denominator in denominators:
        den = lcm(den, denominator) if den % denominator else den
        demand(den.bit_length() <= MAX_BITS, "the denominators have no small common multiple")
    factors = {denominator: den // denominator for denominator in denominators}
    return [v.numerator * factors[v.denominator] for v in values], den


def dot(a: Vector, b: Vector) -> Fraction:
    (p, q), (r, t) = common_denominator(a), common_denominator(b)
    return Fraction(sum(map(mul, p, r)), q * t)


# decimal rounds ln correctly.
DIGITS, MORE_DIGITS = Context(prec=50), Context(prec=60)
LN2 = int(Fraction(MORE_DIGITS.ln(Decimal(2))) * (1 << WORK))  # times 2^192


def log(x: Fraction) -> Fraction:
    """Return ln x, within UNIT."""
    return Fraction(DIGITS.ln(DIGITS.divide(Decimal(x.numerator), Decimal(x.denominator))))


def exp_minus(top: int, den: int) -> int:
    """Return a whole number n with |exp(-top/den) - n UNIT| <= UNIT, for top >= 0.

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
    """Return a number from (1/g) ln sum exp(g t) to 2 (k + 1) UNIT / g above it, for k numbers t."""
    gaps = [sharp * (max(t) - v) for v in t]
    return max(t) + (log(UNIT * sum(exp_minus(v.numerator, v.denominator) + 1 for v in gaps)) + UNIT) / sharp


# Upper bounds on losses of t; ln(1 + e^t) is ln(e^0 + e^t).
LOSSES: dict[Json, Callable[[Fraction], Fraction]] = {
    "hinge": lambda t: max(ZERO, t),
    "logistic": lambda t: soft_max([ZERO, t], Fraction(1)),
    "linear": lambda t: t,
}


def entropy(shares: Vector) -> Fraction:
    """Return a number from H to 2 UNIT below it, for shares that add up to 1."""
    return -sum((p * (log(p) + UNIT) for p in shares if p > 0), ZERO)


def root(x: Fraction) -> Fraction:
    """Return a number from the square root to UNIT above it."""
    return UNIT * (isqrt((x.numerator << 2 * BITS) // x.denominator) + 1) if x else x


def finite_double(text: str) -> float:
    """Read a cell of the data."""
    if not (DECIMAL.fullmatch(text) and isfinite(float(text))):
        raise Refused(f"{quoted(text)} in the data is not a finite number")
    return float(text)


def lines_of(path: str) -> Iterator[bytes]:
    """Yield the lines of a file, each with its end."""
    with open(path, "rb") as file:
        for k, line in enumerate(iter(lambda: file.readline(MAX_LINE_BYTES), b"")):
            demand(len(line) < MAX_LINE_BYTES, f"the data have a line of more than {MAX_LINE_BYTES} bytes")
            yield line if k else line.removeprefix(b"\xef\xbb\xbf")


def from_svmlight(path: str) -> Iterator[tuple[Cells, Any]]:
    """Yield samples and labels of lines "label column:value ...", columns from 1 and rising."""
    for line in lines_of(path):
        words, row, last = line.partition(b"#")[0].decode().split(), {}, 0
        for word in words[1:]:
            place, _, value = word.partition(":")
            if not (re.fullmatch("[0-9]{1,10}", place) and int(place) > last):
                raise Refused(f"the data have {quoted(word)} where a column above {last} is to come")
            last = int(place)
            row[last - 1] = finite_double(value)
        if words:
            finite_double(words[0])
            yield row, words[0]


def from_table(path: str, separator: str, header: bool, target: int) -> Iterator[tuple[Cells, Any]]:
    """Yield samples and labels of a CSV table, whose labels are in the column `target`."""
    with open(path, encoding="utf-8-sig", newline="") as file:
        lines = iter(lambda: file.readline(MAX_LINE_BYTES), "")
        rows = ([cell.strip() for cell in row] for row in csv.reader(lines, delimiter=separator, strict=True))
        rows = (row for row in rows if row not in ([], [""]))
        width = len(next(rows, [])) if header else 0
        for row in rows:
            width = width or len(row)
            demand(len(row) == width, f"a row of the table has {len(row)} cells, the first one {width}")
            demand(0 <= target < width and row[target], "a label is missing")
            label = row.pop(target)
            yield dict(enumerate(map(finite_double, row))), label


def preprocess(cells: Cells, m: int, steps: list[tuple[Any, list[float]]]) -> Cells:
    """Return a sample as the machine saw it: (x - shift) / divide * factor * times in doubles."""
    demand(max(cells, default=0) < m, f"there are more than {m} features")
    values: Any = cells.values()
    for step, operand in steps:
        demand(len(cells) == m or step is not sub, f"there are not {m} features")
        values = map(step, values, map(operand.__getitem__, cells))
    values_by_column = dict(zip(cells, values))
    demand(all(map(isfinite, values_by_column.values())), "the data hold a number that is not finite")
    return {j: values_by_column[j] for j in sorted(values_by_column) if values_by_column[j]}


def digest(rows: list[Cells], m: int, y: list[int]) -> str:
    """Return SHA-256 of n, m and, for each sample, y, the number of cells, their columns, and doubles."""
    sha = hashlib.sha256(struct.pack("<QQ", len(rows), m))
    for row, label in zip(rows, y):
        sha.update(struct.pack(f"<bQ{len(row)}Q{len(row)}d", label, len(row), *row.keys(), *row.values()))
    return sha.hexdigest()


class Samples:
    """Samples as whole numbers over one denominator; lifted, each ends with a 1."""

    def __init__(self, rows: list[Cells], m: int, lifted: bool):
        self.den = den = lcm(*{x.as_integer_ratio()[1] for row in rows for x in row.values()})
        self.n, self.m, (place, one) = len(rows), m + lifted, ([m], [den]) if lifted else ([], [])
        ratios = ((row, [x.as_integer_ratio() for x in row.values()]) for row in rows)
        self.rows = [([*row, *place], [p * (den // q) for p, q in own] + one) for row, own in ratios]
        self.columns: dict[int, list[int]] = {}  # of the kernel matrix

    def times(self, w: Vector) -> Vector:
        """Return X w."""
        (v, den), products = common_denominator(w), []
        for at, x in self.rows:
            products.append(Fraction(sum(map(mul, x, map(v.__getitem__, at))), den * self.den))
        return products

    def pull(self, beta: Vector) -> Vector:
        """Return X' beta."""
        (factors, den), sums = common_denominator(beta), [0] * self.m
        for b, (at, x) in zip(factors, self.rows):
            for j, value in zip(at, x) if b else ():
                sums[j] += b * value
        return [Fraction(v, den * self.den) for v in sums]

    def gram(self, c: Vector, kernel: Json) -> tuple[Vector, Fraction]:
        """Return K c, and a bound on the error of its entries."""
        kind, (factors, c_den), total = kernel["kernel"], common_denominator(c), [0] * self.n
        if kind == "linear":
            return self.times(self.pull(c)), ZERO
        gamma, norms = number(kernel["gamma"]), [sum(map(mul, x, x)) for _, x in self.rows]
        factor, divisor = gamma.numerator, gamma.denominator * self.den**2
        demand(factor > 0 and (factor * divisor).bit_length() < 10_000, "gamma is not positive, or no double")
        den, shift, degree = 1 << BITS, 0, 1
        if kind == "poly":
            coef0, degree = number(kernel["coef0"]), kernel["degree"]
            demand(1 <= degree <= 20, "the degree is from 1 to 20")
            shift, factor = coef0.numerator * divisor, factor * coef0.denominator
            divisor *= coef0.denominator
            den = divisor**degree
        for j in (j for j, c_j in enumerate(factors) if c_j):
            column = self.columns.get(j)
            if not column:
                row = [0] * self.m
                for k, value in zip(*self.rows[j]):
                    row[k] = value
                products = [sum(map(mul, x, map(row.__getitem__, at))) for at, x in self.rows]  # times den^2
                if kind == "rbf":
                    distances = (norms[j] + b - 2 * a for a, b in zip(products, norms))
                    column = [exp_minus(factor * square, divisor) for square in distances]
                else:
                    column = [(factor * a + shift) ** degree for a in products]
                n_bytes = 60 + max(map(int.bit_length, column)) // 8  # bytes of a number
                if len(self.columns) * self.n * n_bytes < MEMORY // 4:  # the leaves of a tree want it again
                    self.columns[j] = column
            total = [f + factors[j] * k for f, k in zip(total, column)]
        error = UNIT * sum(map(abs, c)) if kind == "rbf" else ZERO
        return [Fraction(v, c_den * den) for v in total], error


def per_sample(value: Json, n: int, parse: Callable[[Json], Any]) -> list[Any]:
    """Read a value for each sample, from a list or from one value for all."""
    if type(value) is not list:
        return [parse(value)] * n
    demand(len(value) == n, "a family's caps and faces must be told for every sample")
    return [parse(v) for v in value]


class Rows:
    """A family of rows: side, kink, caps (None for infinite), and the faces at which a sample answers."""

    def __init__(self, family: Json, y: list[int], faces: int):
        by_word: Json = {"all": range(faces), "none": (), "one": ()}

        def faces_of(value: Json) -> Any:
            """Read faces into a container that is quick to search."""
            if type(value) is str:
                return by_word[value]
            listed = value if type(value) is list else [value]
            chosen = dict.fromkeys(listed)
            exist = all(0 <= k < faces for k in chosen) and len(chosen) == len(listed)
            demand(exist, f"{self.title}: there is no such face")
            return chosen

        n, side, self.name, self.title = len(y), family["side"], family["name"], quoted(family["name"])
        self.loss, self.pays = family.get("loss", "hinge"), family.get("pays", "sum")
        self.kink, self.sharp = number(family["kink"]), number(family.get("sharp", 0))
        self.side = y if side == "label" else [side] * n
        self.cap = per_sample(family["cap"], n, lambda c: None if c == "inf" else number(c))
        self.at = per_sample(family.get("at", "all"), n, faces_of)
        self.one = per_sample(family.get("at", "all"), n, lambda at: at == "one")
        self.less = per_sample(family.get("less", "none"), n, faces_of)
        demand(min((c for c in self.cap if c is not None), default=0) >= 0, "a cap is negative")
        is_hard_allowed = self.loss == "hinge" and self.pays != "soft"
        demand(is_hard_allowed or None not in self.cap, "an infinite cap is of a hinge that is not soft")
        is_positive = self.loss != "linear" and None not in self.cap
        demand(is_positive or not any(self.one), "at one of the faces a sample pays 0 or more")
        demand(self.pays != "soft" or self.sharp > 0, "the sharpness is not positive")

    def value(self, f: list[Vector], error: Fraction) -> Fraction:
        """Return an upper bound on the sum of losses at scores that are each within `error`."""
        total, phi = ZERO, LOSSES[self.loss]
        for i, (s, cap, at, less) in enumerate(zip(self.side, self.cap, self.at, self.less)):
            start = self.kink + error + sum(s * f[k][i] + error for k in less)
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
        """Return the gain of multipliers (by face) in the bound, if they keep their signs and caps."""
        is_linear, is_logistic = self.loss == "linear", self.loss == "logistic"
        total = self.kink * sum(self.checked_sum(k, *common_denominator(m_k)) for k, m_k in enumerate(m))
        if self.loss == "hinge" and self.pays == "sum":
            return total
        for i, (cap, at, m_i) in enumerate(zip(self.cap, self.at, zip(*m))):
            if any(m_i) or (is_linear and at):
                m_sum = sum(m_i)
                parts = [m_i[k] for k in at] if self.pays == "sum" else [m_sum]
                is_feasible = cap is None or (max(parts) <= cap and (min(parts) == cap or not is_linear))
                demand(is_feasible, f"{self.title}: sample {i} is above its cap, or below a cap to be kept")
                if is_logistic and cap:
                    total += sum(cap * entropy([p / cap, 1 - p / cap]) for p in parts)
                if self.pays == "soft" and m_sum:
                    total += m_sum / self.sharp * entropy([v / m_sum for v in m_i])
        return total

    def checked_sum(self, k: int, m_k: list[int], den: int) -> Fraction:
        """Return the sum of multipliers at a face, if each keeps its sign and its cap by itself."""
        demand(min(m_k) >= 0, f"{self.title}: a multiplier is negative")
        for i, m_ik in enumerate(m_k):
            if m_ik:
                cap = self.cap[i]
                if k not in self.at[i]:
                    raise Refused(f"{self.title}: sample {i} has no row where it has a multiplier")
                if cap is not None and m_ik * cap.denominator > cap.numerator * den:
                    raise Refused(f"{self.title}: sample {i} is above its cap")
        return Fraction(sum(m_k), den)

    def pull(self, m: list[Vector], betas: list[Vector]) -> None:
        """Add multipliers (by face), with their sides, to the betas."""
        for beta, part in zip(betas, m):
            beta[:] = [(b + v if s > 0 else b - v) if v else b for b, s, v in zip(beta, self.side, part)]
        for i, less in enumerate(self.less):
            for k in less:
                betas[k][i] -= self.side[i] * sum(part[i] for part in m)


def conjugate(v: Fraction, price: tuple[Fraction, ...], share: Fraction, error: Fraction) -> Fraction:
    """Return the largest v w - share h w^2 - l |w| - (n if w is not 0) in the box, v being within `error`."""
    h, l1, count, low, high = price
    slope = max(abs(v) - l1, ZERO)
    size: Any = slope / (2 * h * share) if h and share else inf if slope else ZERO
    w = min(max(size if v > 0 else -size, low), high)
    demand(abs(w) < inf, "a weight that has no price is pulled")
    value = v * w - share * h * w * w - l1 * abs(w) - count
    if error:
        w_max = max(abs(low), abs(high))
        demand(w_max < inf, "a weight without ends has features that are not exact")
        value += error * w_max
    return max(value, ZERO) if count and low <= 0 <= high else value


class Program:
    """Features, size and rows: the value of a point, and the bound of multipliers."""

    def __init__(self, program: Json, rows: list[Cells], m: int, y: list[int]):
        self.features, self.size, self.y = program["features"], program["size"], y
        self.kind, self.shape = self.features["kind"], self.size["kind"]
        self.faces, self.intercept = program["faces"], program["intercept"]
        by_sample, has_weights = self.kind in ("kernel", "expansion"), self.kind != "kernel"
        demand(1 <= self.faces <= (1 if by_sample else MAX_FACES), "the number of faces is out of range")
        n = len(rows)
        self.width = n if by_sample else m + (self.kind == "lifted")
        count = self.faces * (n + self.width) * (len(program["rows"]) + 2)
        demand(count <= MAX_NUMBERS, f"the program has more than {MAX_NUMBERS} multipliers and weights")
        self.samples = Samples(rows, m, self.kind == "lifted")
        self.constant = number(program.get("constant", 0))
        self.rows = [Rows(row, y, self.faces) for row in program["rows"]]
        demand(len({row.name for row in self.rows}) == len(self.rows), "two families have one name")
        self.leaves, self.choice = 0, [row for row in self.rows if any(row.one)]
        self.is_square = set(self.size) <= {"kind", "factor"} and self.shape == "square"
        if has_weights:
            columns = [self.by_face(name) for name in ("factor", "l1", "count", "low", "high")]
            self.prices: list[Any] = [list(zip(*face)) for face in zip(*columns)]
            are_valid = all(min(h, l1, n) >= 0 and a <= z for face in self.prices for h, l1, n, a, z in face)
            demand(are_valid, "a price is negative, or a weight has no room")
            self.group, self.most = number(self.size.get("group", 0)), self.size.get("whole")
            demand(self.group >= 0, "a price is negative")
            self.groups = vector(self.size.get("groups", 0), self.width, "groups")
        else:
            self.factor, self.groups, self.most = number(self.size["factor"]), [], None
            is_psd = number(self.features.get("coef0", 0)) >= 0
            demand(self.factor > 0 and is_psd, "the factor is not positive, or the kernel not semidefinite")
        self.grouped, self.share = any(self.groups), ZERO
        equal = has_weights and all(face == self.prices[0] for face in self.prices)
        equal &= not any(any(r.less) or any(0 < len(a) < self.faces for a in r.at) for r in self.rows)
        demand(not self.choice or (equal and len(self.choice) == 1), "the faces to choose from are not alike")
        if "variance" in self.size:
            self.share, n = number(self.size["variance"]["share"]), self.samples.n
            self.weights = vector(self.size["variance"]["weights"], n, "weights")
            demand(self.share > 0 and min(self.weights) > 0, "the variance has a wrong share or weight")

    def by_face(self, name: str) -> list[Vector]:
        """Read a vector of the size for each face; one object may serve all faces."""
        defaults = {"low": "-inf", "high": "inf"}
        value = self.size.get(name, defaults.get(name, 0))
        if type(value) is not dict or "faces" not in value:
            return [vector(value, self.width, name, name in defaults)] * self.faces
        demand(len(value["faces"]) == self.faces, f"{name} is not told for each face")
        return [vector(part, self.width, name, name in defaults) for part in value["faces"]]

    def through(self, c: Vector, out: bool) -> tuple[Vector, Fraction]:
        """Return scores of coefficients, without b (out), or v of betas, and a bound on the error of each."""
        if self.kind in ("plain", "lifted"):
            return (self.samples.times(c) if out else self.samples.pull(c)), ZERO
        signs = self.y if self.kind == "expansion" else [1] * len(self.y)
        products, error = self.samples.gram(list(map(mul, c, signs)) if out else c, self.features)
        return products if out else list(map(mul, products, signs)), error

    def spread(self, f: Vector, error: Fraction) -> tuple[Vector, Fraction]:
        """Return the slopes z of half the variance of scores within `error`, and a bound on the variance."""
        total = sum(self.weights)
        mean = dot(self.weights, f) / total
        z = [p * (v - mean) / total for p, v in zip(self.weights, f)]
        return z, dot(z, f) + error * (2 * sum(map(abs, z)) + error)

    def lengths(self, vectors: list[Vector]) -> dict[Fraction, Fraction]:
        """Return the squared length of each group over all faces; 0 is the key of weights without a group."""
        squares = dict.fromkeys(self.groups, ZERO)
        for vector in vectors if self.grouped else []:
            for group, v in zip(self.groups, vector):
                squares[group] += v * v
        return squares

    def face_size(self, k: int, w: Vector, f: Vector, error: Fraction) -> tuple[Fraction, Fraction]:
        """Return upper bounds on the squares and on the other costs of a face."""
        if self.kind == "kernel":
            return self.factor * (dot(w, f) + error * sum(map(abs, w))), ZERO
        is_inside = all(low <= v <= high for v, (*_, low, high) in zip(w, self.prices[k]))
        demand(is_inside, "the point is outside its box")
        if self.most is not None:
            numerators = common_denominator(w[: self.width - (self.kind == "lifted")])[0]
            is_whole = max(map(abs, numerators), default=0) <= self.most * gcd(*numerators)
            demand(is_whole, "the weights are no such whole numbers times a scale")
        squares = sum((h * v * v for v, (h, *_) in zip(w, self.prices[k]) if v), ZERO)
        return squares, sum((l1 * abs(v) + n for v, (_, l1, n, _, _) in zip(w, self.prices[k]) if v), ZERO)

    def value(self, point: Json) -> tuple[Fraction, list[Vector]]:
        """Return an upper bound on the objective at a feasible point, and the slopes of variances."""
        demand(len(point["w"]) == self.faces, "the point has another number of faces")
        faces = [vector(w, self.width, "w") for w in point["w"]]
        b = vector(point.get("b", []), self.faces, "b") if self.intercept else [ZERO] * self.faces
        demand(self.intercept or point.get("b", []) == [], "the point has a b without an intercept")
        outputs = [self.through(w, True) for w in faces]
        sizes = [self.face_size(k, w, *output) for k, (w, output) in enumerate(zip(faces, outputs))]
        squares, total = [square for square, _ in sizes], self.constant + sum(other for _, other in sizes)
        total += max(squares) if self.shape == "worst" else sum(squares)
        total += sum(self.group * root(square) for group, square in self.lengths(faces).items() if group)
        spreads = [self.spread(*output) for output in outputs] if self.share else []
        total += self.share / 2 * sum(variance for _, variance in spreads)
        f = [[v + c for v in scores] if c else scores for (scores, _), c in zip(outputs, b)]
        total += sum(rows.value(f, max(error for _, error in outputs)) for rows in self.rows)
        return total, [z for z, _ in spreads]

    def price(self, k: int, beta: Vector, share: Fraction, held: Vector) -> Fraction:
        """Return an upper bound on the price of a face's multipliers."""
        v, error = self.through(beta, False)
        if self.kind == "kernel":
            return (dot(beta, v) + error * sum(map(abs, beta))) / (4 * self.factor)
        v = [a - q for a, q in zip(v, held)] if held else v
        return sum((conjugate(a, price, share, error) for a, price in zip(v, self.prices[k])), ZERO)

    def multipliers_of(self, node: Json, parent: Multipliers) -> Multipliers:
        """Read the multipliers of a node; those that are missing are its parent's."""
        multipliers = dict(parent)
        for name, parts in node.get("rows", {}).items():
            demand(len(parts) == self.faces, f"{quoted(name)} is not told for each face")
            before: list[Any] = multipliers.get(name) or [None] * self.faces
            n, title = self.samples.n, quoted(name)
            multipliers[name] = [vector(v, n, title, before=old) for v, old in zip(parts, before)]
        names = {rows.name for rows in self.rows}
        demand(set(multipliers) == names, "there must be multipliers of every family")
        return multipliers

    def least_bound(
        self, node: Json, slopes: list[Vector], parent: Multipliers | None = None, used: int = 0
    ) -> Fraction:
        """Return the least bound of all leaves of a tree; the first `used` faces have decided samples."""
        if "ways" not in node:
            self.leaves += 1
            gain, price = self.bound(node, slopes, parent)
            return gain - price
        ways, multipliers, bounds = node["ways"], self.multipliers_of(node, parent or {}), []
        demand(("sample" in node) == bool(self.choice), "the tree decides of samples at one face, or weights")
        if self.choice:
            i, rows = node["sample"], self.choice[0]
            is_open = 0 <= i < self.samples.n and rows.one[i] and not rows.at[i]
            demand(is_open and len(ways) == min(used + 1, self.faces), f"sample {i} has other ways, or none")
            for k, way in enumerate(ways):
                rows.at[i] = [k]
                bounds.append(self.least_bound(way, slopes, multipliers, max(used, k + 1)))
            rows.at[i] = []
            return min(bounds)
        j, constant = node["weight"], self.constant
        demand(self.kind != "kernel" and 0 <= j < self.width and len(ways) == 2, f"weight {j} has no 2 ways")
        h, l1, n, low, high = before = self.prices[0][j]
        cases = ((h, l1, n, ZERO, ZERO), constant), ((h, l1, ZERO, low, high), constant + n)
        for way, case in zip(ways, cases):
            self.prices[0][j], self.constant = case
            bounds.append(self.least_bound(way, slopes, multipliers))
        self.prices[0][j], self.constant = before, constant
        return min(bounds)

    def bound(
        self, node: Json, slopes: list[Vector], parent: Multipliers | None = None
    ) -> tuple[Fraction, Fraction]:
        """Return gain and price of a leaf's multipliers, which must be feasible; slopes: of the variance."""
        multipliers, gain, price = self.multipliers_of(node, parent or {}), self.constant, ZERO
        betas = [[ZERO] * self.samples.n for _ in range(self.faces)]
        for rows in self.rows:
            gain += rows.gain(multipliers[rows.name])
            rows.pull(multipliers[rows.name], betas)
        balanced = not self.intercept or not any(sum(common_denominator(beta)[0]) for beta in betas)
        demand(balanced, "the multipliers are not in balance")
        for beta, z in zip(betas, slopes):
            beta[:] = [b - self.share * v for b, v in zip(beta, z)]
            squares = sum(v * v / p for v, p in zip(z, self.weights))
            price += self.share / 2 * sum(self.weights) * squares
        shares = [Fraction(1)] * self.faces
        demand(
            ("shares" in node) == (self.shape == "worst"), "shares are for the size worst, and needed there"
        )
        demand(("held" in node) == self.grouped, "what is held is for groups, and needed there")
        if self.shape == "worst":
            shares = vector(node["shares"], self.faces, "shares")
            demand(sum(shares) == 1 and min(shares) >= 0, "the shares do not divide 1")
        held: list[Vector] = [[]] * self.faces
        if self.grouped:
            held = [vector(q, self.width, "held") for q in node["held"]]
            lengths = self.lengths(held)
            demand(len(held) == self.faces, "what is held is not told for each face")
            is_feasible = all(s <= (g and self.group) ** 2 for g, s in lengths.items())
            demand(is_feasible, "a group holds more than its price")
        each_face = enumerate(zip(betas, shares, held))
        return gain, price + sum((self.price(k, *parts) for k, parts in each_face), ZERO)


def load_samples(data: Json, path: str) -> tuple[list[Cells], int, list[int]]:
    """Return the samples of a claim as the machine saw them, m, and their labels -1 and +1."""
    m, runs, labels = data["features"], data["rows"], data["labels"]
    ends = [end for run in runs for end in run]
    demand(all(len(run) == 2 for run in runs) and ends and ends == sorted(ends), "the rows are not in order")
    demand(ends[0] >= 0 and 1 <= m <= MAX_FEATURES, "there are no such samples")
    signs = {plain(labels["-1"]): -1, plain(labels["+1"]): 1}
    demand(len(signs) == 2, "both labels are one")
    operations = {"shift": sub, "divide": truediv, "factor": mul, "times": mul}
    steps = []
    for name in (name for name in operations if name in data):
        operand = vector(data[name], m, name)
        demand(name != "divide" or all(operand), "a divisor is 0")
        steps.append((operations[name], list(map(float, operand))))
        demand(steps[-1][1] == operand, f"{name} is no vector of doubles")
    is_table = "table" in data
    samples = from_table(path, **data["table"]) if is_table else from_svmlight(path)
    wanted = (k for a, z in runs for k in range(a, z))
    rows, y, next_row = [], [], next(wanted, None)
    for i, (cells, label) in enumerate(samples):
        demand(len(cells) == m or not is_table, f"the data have {len(cells)} features, not {m}")
        if i == next_row:
            rows.append(preprocess(cells, m, steps))
            y.append(signs.get(plain(label), 0))
            next_row = next(wanted, None)
    demand(next_row is None and rows, "there are no such samples")
    demand(0 not in y, "the labels are not those of the claim")
    return rows, m, y


@contextmanager
def refusing(what: str) -> Iterator[None]:
    """Turn any error of a broken file into Refused."""
    try:
        yield
    except (Refused, MemoryError):
        raise
    except Exception as error:
        why: Any = f"{type(error).__name__}: {quoted(str(error))}"
        why = error.strerror if isinstance(error, OSError) else why
        raise Refused(f"{what} cannot be read: {why}") from error


def check(claim: Json, path: str, say: Callable[[str], None]) -> None:
    """Prove a claim step by step, or raise Refused."""
    with refusing("the claim or the data"):
        prove(claim, path, say)


def prove(claim: Json, path: str, say: Callable[[str], None]) -> None:
    claim = checked(claim, CLAIM, "claim")
    trees = [(claim["multipliers"], 0)] if claim["kind"] == "bounds" else []
    for tree, level in trees:
        demand(level <= MAX_TREE_LEVELS, f"the tree has more than {MAX_TREE_LEVELS} levels")
        trees += [(way, level + 1) for way in checked(tree, TREE, "tree").get("ways", [])]
    rows, m, y = load_samples(claim["data"], path)
    say(f"the data are read: {len(y)} samples of {m} features, {y.count(1)} of them +1")
    demand(digest(rows, m, y) == claim["data"]["sha256"], "the samples are not those of the claim")
    say("they have the digest of the claim")
    program, multipliers = Program(claim["program"], rows, m, y), claim["multipliers"]
    if claim["kind"] == "infeasible":
        gain, price = program.bound(multipliers, [])
        hard = all(cap is None for rows in program.rows for cap in rows.cap)
        proven = gain > program.constant and not price
        demand(hard and program.is_square and proven, "the multipliers are no ray")
        say("the multipliers are a ray: no point keeps the rows without slack")
        return
    high, low, gap = (number(claim["claim"][name]) for name in ("value", "bound", "gap"))
    value, slopes = program.value(claim["point"])
    top, least = rounded(high, True), rounded(low, False)
    demand(value <= high, f"the value is {rounded(value, False)}, above the {top} that is claimed")
    say(f"the point keeps its constraints, and its value is at most {top}, as claimed")
    bound = program.least_bound(multipliers, slopes)
    demand(bound >= low, f"the bound is {rounded(bound, True)}, not {least} as claimed")
    say(f"the multipliers keep signs, caps and balance, and prove {least}, as claimed")
    if program.leaves > 1:
        say(f"so they do in each of {program.leaves} cases, and there is no other")
    demand(high - low <= gap, "the gap is larger than claimed")
    say(f"no point is better by more than {rounded(gap, True)}, as claimed")


def claims_of(path: str) -> Json:
    """Return the claims in a file, unchecked."""
    with refusing(quoted(path)), open(path, "rb") as file:
        content = file.read(MAX_FILE_BYTES + 1)
        demand(len(content) <= MAX_FILE_BYTES, f"a claim file has at most {MAX_FILE_BYTES >> 20} MB")
        content_read = checked(parse_json(content.decode("utf-8")), FILE, "file of claims")
    demand(1 <= len(content_read["claims"]) <= 5000, "a file has from 1 to 5000 claims")
    return content_read["claims"]


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
    """Return the exit status; by default the arguments are the process's, which is limited then."""
    parser = argparse.ArgumentParser("check.py", description=HELP, epilog=STATUS)
    seconds = "of the processor, for all claims together (50); these and a gigabyte are no limits on Windows"
    parser.add_argument("--seconds", type=int, default=SECONDS, help=seconds)
    parser.add_argument("claim")
    parser.add_argument("data")
    options = parser.parse_args(arguments)
    if arguments is None:
        limit(options.seconds)
    steps: list[str] = []

    def say(text: str) -> None:
        steps.append(text)
        print(f"{len(steps):3}. {text}: yes")

    try:
        for claim in claims_of(options.claim):
            title = claim.get("title")
            say(f"a claim on {quoted(title if type(title) is str else '')} is read")
            check(claim, options.data, say)
    except (Refused, MemoryError, KeyboardInterrupt) as why:
        words = {MemoryError: "the claim takes more than a gigabyte", KeyboardInterrupt: "interrupted"}
        print(f"Refused: {words.get(type(why), why)}")
        return 130 if isinstance(why, KeyboardInterrupt) else 1
    print("Every step holds.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
