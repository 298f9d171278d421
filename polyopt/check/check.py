"""Check a claim about a large-margin classifier in exact arithmetic: ``python check.py claim.json data``.

Each step that holds is printed. The last line is "Every step holds.", or it begins with "Refused:".
This file needs Python 3.11 and nothing else; copy it where you like. FORMAT.md describes the claim and the
data files, and has the mathematics: the program, the bound that multipliers prove, rays and trees.

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
from itertools import count
from math import gcd, inf, isfinite, isqrt, lcm, nextafter
from operator import mul, sub, truediv
from typing import Any

Json = Any  # a value of a claim, of no certain type
Vector = list[Fraction]
Cells = dict[int, float]  # a sample: its values that are not 0, by column

BITS, WORK, MAX_BITS = 128, 192, 20_000  # of results, on the way, and of numbers and denominators in a claim
UNIT, ZERO = Fraction(1, 1 << BITS), Fraction(0)
NUMBER = re.compile(r"(-?)0x([0-9a-f]{1,4000})p([+-]?\d{1,5})|-?\d{1,4000}(/\d{1,4000})?", re.ASCII)
DECIMAL = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d{1,3})?", re.ASCII)  # in the data
MAX_FILE_BYTES, MAX_FACES, MAX_FEATURES = 64 << 20, 10_000, 2_000_000
MAX_NUMBERS = 5_000_000  # multipliers, scores and weights at once, each some 100 bytes
MAX_MEMORY = 1_000_000_000  # bytes


class Refused(Exception):
    """The claim is not proven; the text says why."""


def demand(holds: Any, why: str) -> None:
    if not holds:
        raise Refused(why)


def quoted(value: Json) -> str:
    """Quote a value of a file for messages: short, in ASCII, without control characters."""
    text = ascii(value)
    return text if len(text) <= 60 else text[:60] + "..."


@contextmanager
def refusing() -> Iterator[None]:
    """Turn any error of a broken file into Refused."""
    try:
        yield
    except Refused:
        raise
    except MemoryError as error:
        raise Refused("the claim takes more than a gigabyte") from error
    except Exception as error:
        why = f"{type(error).__name__}: {quoted(str(error))}"
        raise Refused(f"the claim or the data cannot be read: {why}") from error


class Fields(dict[str, Json]):
    """An object of a claim. It knows which fields were not read, for which the claim is refused at last."""

    def __init__(self, pairs: list[tuple[str, Json]]):
        super().__init__(pairs)
        self.unread = set(self)
        demand(len(self) == len(pairs), f"a field stands twice in an object: {quoted([k for k, _ in pairs])}")

    def get(self, name: str, default: Json = None) -> Json:
        """Return a field that may be missing."""
        self.unread.discard(name)
        return super().get(name, default)

    def __getitem__(self, name: str) -> Json:
        demand(name in self, f"the field {name} of FORMAT.md is missing")
        return self.get(name)


def parse_json(text: str) -> Json:
    """Read JSON, and refuse decimal points, exponents, NaN and Infinity."""

    def refuse(number: str) -> None:
        raise Refused(f"{quoted(number)} is not a whole number")

    return json.loads(text, parse_float=refuse, parse_constant=refuse, object_pairs_hook=Fields)


def typed(kind: type, value: Json) -> Json:
    """Return a value, which must be of this type: True is not a whole number."""
    if type(value) is not kind:
        raise Refused(f"{quoted(value)} is not of the type {kind.__name__}, as FORMAT.md has it")
    return value


def chosen(word: Json, *words: str) -> str:
    """Return a word, which must be one of these."""
    demand(word in words, f"{quoted(word)} is none of {', '.join(words)}")
    return word


def number(value: Json) -> Fraction:
    """Read an integer of less than 64 bits, "p/q", or "0x1fp-3", which is 31/8."""
    if type(value) is int and value.bit_length() < 64:
        return Fraction(value)
    match = NUMBER.fullmatch(typed(str, value))
    if not match:
        raise Refused(f"{quoted(value)} is not a number")
    if not match[2]:
        return Fraction(value)
    mantissa, power = int(match[1] + match[2], 16), int(match[3])
    demand(mantissa.bit_length() + abs(power) <= MAX_BITS, f"a number has more than {MAX_BITS} bits")
    return Fraction(mantissa << max(power, 0), 1 << max(-power, 0))


def end_of(value: Json) -> Any:
    """Read an end of a weight: a number, "inf" or "-inf"."""
    return float(value) if value in ("inf", "-inf") else number(value)


def vector(value: Json, size: int, what: str, read: Any = number, before: Json = None) -> list[Any]:
    """Read a list, one value for all, or {"at": places, "is": values}: others are as `before`, or zeros."""
    if type(value) is list:
        demand(len(value) == size, f"{what} has not {size} values")
        return list(map(read, value))
    if not isinstance(value, dict):
        return [read(value)] * size
    places, values = typed(list, value["at"]), typed(list, value["is"])
    demand(len(set(places)) == len(places) == len(values), f"{what}: places and values do not match")
    entries = list(before or [ZERO] * size)
    for k, element in zip(places, values):
        demand(0 <= typed(int, k) < size, f"{what}: a place is out of range")
        entries[k] = read(element)
    return entries


def common_denominator(values: Vector) -> tuple[list[int], int]:
    """Return integers and their common denominator."""
    den = lcm(*{value.denominator for value in values})
    demand(den.bit_length() <= MAX_BITS, "the denominators have no small common multiple")
    return [value.numerator * (den // value.denominator) for value in values], den


DIGITS = Context(prec=60)  # decimal rounds ln correctly
LN2 = int(Fraction(DIGITS.ln(Decimal(2))) * (1 << WORK))  # times 2^192


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


def entropy(shares: Vector) -> Fraction:
    """Return a number from H to 2 UNIT below it, for shares that add up to 1."""
    return -sum((p * (log(p) + UNIT) for p in shares if p > 0), ZERO)


def root(x: Fraction) -> Fraction:
    """Return a number from the square root to UNIT above it."""
    return UNIT * (isqrt((x.numerator << 2 * BITS) // x.denominator) + 1) if x else x


# Upper bounds on losses of t; ln(1 + e^t) is ln(e^0 + e^t).
LOSSES: dict[str, Callable[[Fraction], Fraction]] = {
    "hinge": lambda t: max(ZERO, t),
    "logistic": lambda t: soft_max([ZERO, t], Fraction(1)),
    "linear": lambda t: t,
}


def finite_double(text: str) -> float:
    """Read a cell of the data."""
    if not (DECIMAL.fullmatch(text) and isfinite(float(text))):
        raise Refused(f"{quoted(text)} in the data is not a finite number")
    return float(text)


def from_svmlight(path: str) -> Iterator[tuple[Cells, str]]:
    """Yield samples and labels of lines "label column:value ...", columns from 1 and rising."""
    with open(path, encoding="utf-8-sig", errors="surrogateescape", newline="\n") as file:
        for line in file:
            words, row, last = line.partition("#")[0].split(), {}, 0
            for word in words[1:]:
                place, _, value = word.partition(":")
                if not (re.fullmatch("[0-9]{1,10}", place) and int(place) > last):
                    raise Refused(f"the data have {quoted(word)} where a column above {last} is to come")
                last = int(place)
                row[last - 1] = finite_double(value)
            if words:
                finite_double(words[0])
                yield row, words[0]


def from_table(path: str, layout: Json) -> Iterator[tuple[Cells, str]]:
    """Yield samples and labels of a CSV table, whose labels are in the column `target`."""
    separator, target = typed(str, layout["separator"]), typed(int, layout["target"])
    with open(path, encoding="utf-8-sig", newline="") as file:
        rows = ([cell.strip() for cell in row] for row in csv.reader(file, delimiter=separator, strict=True))
        rows = (row for row in rows if row not in ([], [""]))
        width = len(next(rows, [])) if typed(bool, layout["header"]) else 0
        for row in rows:
            width = width or len(row)
            demand(len(row) == width, f"a row of the table has {len(row)} cells, the first one {width}")
            demand(0 <= target < width and row[target], "a label is missing")
            label = row.pop(target)
            yield dict(enumerate(map(finite_double, row))), label


def plain(label: Json) -> str | Fraction:
    """Return a label as it is compared: numbers by value, other labels as text."""
    text = str(label).strip()
    return Fraction(text) if len(text) <= 400 and DECIMAL.fullmatch(text) else text


STEPS = {"shift": sub, "divide": truediv, "factor": mul, "times": mul}  # before the machine, in doubles


def load_samples(data: Json, path: str) -> tuple[list[Cells], int, list[int]]:
    """Return the samples of a claim as the machine saw them, m, and their labels -1 and +1."""
    m, labels, steps = typed(int, data["features"]), data["labels"], []
    demand(1 <= m <= MAX_FEATURES, "the number of features is out of range")
    signs = {plain(typed(str, labels["-1"])): -1, plain(typed(str, labels["+1"])): 1}
    demand(len(signs) == 2, "both labels are one")
    for name in (name for name in STEPS if name in data):
        operand = vector(data[name], m, name)
        steps.append((STEPS[name], list(map(float, operand))))
        are_valid = steps[-1][1] == operand and (name != "divide" or all(operand))
        demand(are_valid, f"{name} is not a vector of doubles, or divides by 0")
    samples = from_table(path, data["table"]) if "table" in data else from_svmlight(path)
    runs = typed(list, data["rows"])
    wanted = (k for start, end in runs for k in range(typed(int, start), typed(int, end)))
    rows, y, next_row = [], [], next(wanted, None)
    for i, (cells, label) in enumerate(samples):
        is_dense = len(cells) == m or not {"table", "shift"} & data.keys()
        demand(is_dense and max(cells, default=0) < m, f"a sample of the data has not {m} features")
        if i == next_row:
            for operation, operand in steps:
                cells = {j: operation(x, operand[j]) for j, x in cells.items()}
            demand(all(map(isfinite, cells.values())), "the data hold a number that is not finite")
            rows.append({j: x for j, x in sorted(cells.items()) if x})
            y.append(signs.get(plain(label), 0))
            next_row = next(wanted, None)
    demand(rows and next_row is None and 0 not in y, "there are no such samples, or they have other labels")
    return rows, m, y


def digest(rows: list[Cells], m: int, y: list[int]) -> str:
    """Return SHA-256 of n, m and, for each sample, y, the number of cells, their columns, and doubles."""
    sha = hashlib.sha256(struct.pack("<QQ", len(rows), m))
    for row, label in zip(rows, y):
        sha.update(struct.pack(f"<bQ{len(row)}Q{len(row)}d", label, len(row), *row.keys(), *row.values()))
    return sha.hexdigest()


class Samples:
    """Samples as whole numbers over one denominator."""

    def __init__(self, cells: list[Cells], m: int):
        self.n, self.m, self.rows = len(cells), m, []  # columns and whole numbers of each sample
        self.den = lcm(*{x.as_integer_ratio()[1] for row in cells for x in row.values()})
        for row in cells:
            ratios = [x.as_integer_ratio() for x in row.values()]
            self.rows.append((list(row), [p * (self.den // q) for p, q in ratios]))
        self.columns: dict[int, list[int]] = {}  # of the kernel matrix, those that were computed

    def times(self, w: Vector) -> Vector:
        """Return X w."""
        factors, den = common_denominator(w)
        sums = (sum(map(mul, x, map(factors.__getitem__, at))) for at, x in self.rows)
        return [Fraction(v, den * self.den) for v in sums]

    def pull(self, beta: Vector) -> Vector:
        """Return X' beta."""
        (factors, den), sums = common_denominator(beta), [0] * self.m
        for b, (at, x) in zip(factors, self.rows):
            for j, value in zip(at, x) if b else ():
                sums[j] += b * value
        return [Fraction(v, den * self.den) for v in sums]

    def gram(self, c: Vector, kernel: Json) -> tuple[Vector, Fraction]:
        """Return K c, and a bound on the error of its entries."""
        kind = chosen(kernel["kernel"], "linear", "poly", "rbf")
        if kind == "linear":
            return self.times(self.pull(c)), ZERO
        coef0, degree = ZERO, 1
        if kind == "poly":
            coef0, degree = number(kernel["coef0"]), typed(int, kernel["degree"])
        (scale, shift), base = common_denominator([number(kernel["gamma"]) / self.den**2, coef0])
        demand(scale > 0 and 1 <= degree <= 20, "gamma is not positive, or the degree not from 1 to 20")
        is_psd = shift >= 0 or kernel["kind"] == "expansion"  # which need not be
        demand(is_psd, "coef0 is negative, and the kernel not semidefinite")
        squares = [sum(map(mul, x, x)) for _, x in self.rows]
        (factors, den), total = common_denominator(c), [0] * self.n
        for j in (j for j, factor in enumerate(factors) if factor):
            if j not in self.columns:
                row = [0] * self.m
                for k, value in zip(*self.rows[j]):
                    row[k] = value
                products = [sum(map(mul, x, map(row.__getitem__, at))) for at, x in self.rows]
                if kind == "rbf":
                    distances = (squares[j] + square - 2 * p for square, p in zip(squares, products))
                    self.columns[j] = [exp_minus(scale * distance, base) for distance in distances]
                else:
                    self.columns[j] = [(scale * p + shift) ** degree for p in products]
            total = [v + factors[j] * k for v, k in zip(total, self.columns[j])]
        den *= 1 << BITS if kind == "rbf" else base**degree
        return [Fraction(v, den) for v in total], UNIT * sum(map(abs, c)) if kind == "rbf" else ZERO


class Rows:
    """A family of rows: side, kink, caps (None for infinite), and the faces at which a sample answers."""

    def __init__(self, family: Json, y: list[int], faces: int):
        def faces_of(value: Json) -> Any:
            """Read a word, a face, or a list of faces, into a container that is quick to search."""
            if type(value) is str:
                return range(faces) if chosen(value, "all", "none") == "all" else ()
            listed = value if type(value) is list else [value]
            found = dict.fromkeys(typed(int, k) for k in listed)
            exist = len(found) == len(listed) and all(0 <= k < faces for k in found)
            demand(exist, f"{self.title}: a face is out of range, or stands twice")
            return found

        self.name, self.kink, n = typed(str, family["name"]), number(family["kink"]), len(y)
        self.title, at, side = quoted(self.name), family.get("at", "all"), family["side"]
        self.side = y if side == "label" else [typed(int, side)] * n
        self.loss = chosen(family.get("loss", "hinge"), *LOSSES)
        self.pays = chosen(family.get("pays", "sum"), "sum", "worst", "soft")
        self.sharp = number(family["sharp"]) if self.pays == "soft" else ZERO
        self.cap = vector(family["cap"], n, self.title, lambda cap: None if cap == "inf" else number(cap))
        self.at = vector(at, n, self.title, lambda value: () if value == "one" else faces_of(value))
        self.one = vector(at, n, self.title, lambda value: value == "one")
        self.less = vector(family.get("less", "none"), n, self.title, faces_of)
        demand(self.side[0] in (1, -1), f"{self.title}: a side is 1, -1 or the label")
        demand(all(cap is None or cap >= 0 for cap in self.cap), "a cap is negative")
        demand(self.pays != "soft" or self.sharp > 0, "the sharpness is not positive")
        is_hard_allowed = self.loss == "hinge" and self.pays != "soft"
        demand(is_hard_allowed or None not in self.cap, "an infinite cap is of a hinge that is not soft")
        is_positive = self.loss != "linear" and None not in self.cap
        demand(is_positive or not any(self.one), "at one of the faces a sample pays 0 or more")

    def value(self, f: list[Vector], error: Fraction) -> Fraction:
        """Return an upper bound on the losses at scores (by face) that are each within `error`."""
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
        """Return the gain of multipliers (by face) in the bound, if they keep their signs, rows and caps."""
        total = ZERO
        for i, (cap, at, m_i) in enumerate(zip(self.cap, self.at, zip(*m))):
            if not any(m_i) and (self.loss != "linear" or not at):
                continue
            m_sum, has_signs = sum(m_i), all(v >= 0 if k in at else v == 0 for k, v in enumerate(m_i))
            demand(has_signs, f"{self.title}: sample {i} has a negative multiplier, or one without a row")
            parts = [m_i[k] for k in at] if self.pays == "sum" else [m_sum]
            is_feasible = cap is None or (max(parts) <= cap and (min(parts) == cap or self.loss != "linear"))
            demand(is_feasible, f"{self.title}: sample {i} is above its cap, or below a cap to be kept")
            total += self.kink * m_sum
            if self.loss == "logistic" and cap:
                total += sum(cap * entropy([p / cap, 1 - p / cap]) for p in parts)
            if self.pays == "soft" and m_sum:
                total += m_sum / self.sharp * entropy([v / m_sum for v in m_i])
        return total


def conjugate(v: Fraction, price: tuple[Any, ...], share: Fraction, error: Fraction) -> Fraction:
    """Return the largest v w - share h w^2 - l |w| - (n if w is not 0) in the box, v being within `error`."""
    h, l1, count, low, high = price
    slope = max(abs(v) - l1, ZERO)
    size: Any = slope / (2 * h * share) if h and share else inf if slope else ZERO
    w = min(max(size if v > 0 else -size, low), high)
    demand(abs(w) < inf, "a weight that has no price is pulled")
    value = v * w - share * h * w * w - l1 * abs(w) - count
    if error:
        demand(-inf < low and high < inf, "a weight without ends has features that are not exact")
        value += error * max(abs(low), abs(high))
    return max(value, ZERO) if count and low <= 0 <= high else value


class Program:
    """Features, size and rows: the value of a point, and the bound of multipliers."""

    def __init__(self, told: Json, cells: list[Cells], m: int, y: list[int]):
        self.features, self.size, self.y, n = told["features"], told["size"], y, len(y)
        self.faces, self.intercept = typed(int, told["faces"]), typed(bool, told["intercept"])
        self.constant, families = number(told.get("constant", 0)), typed(list, told["rows"])
        self.kind = chosen(self.features["kind"], "plain", "lifted", "kernel", "expansion")
        self.shape = chosen(self.size["kind"], "square", "worst")
        by_sample, is_lifted = self.kind in ("kernel", "expansion"), self.kind == "lifted"
        self.width = n if by_sample else m + is_lifted
        demand(1 <= self.faces <= (1 if by_sample else MAX_FACES), "the number of faces is out of range")
        numbers = self.faces * (n + self.width) * (len(families) + 2)
        demand(numbers <= MAX_NUMBERS, f"the program has more than {MAX_NUMBERS} multipliers and weights")
        self.samples = Samples([row | {m: 1} for row in cells] if is_lifted else cells, m + is_lifted)
        self.rows = [Rows(family, y, self.faces) for family in families]
        demand(len({rows.name for rows in self.rows}) == len(self.rows), "two families have one name")
        self.leaves, self.choice = 0, [rows for rows in self.rows if any(rows.one)]
        self.is_square = self.size.keys() <= {"kind", "factor"} and self.shape == "square"
        columns = self.by_face("factor"), self.by_face("l1"), self.by_face("count")
        ends = self.by_face("low", "-inf", end_of), self.by_face("high", "inf", end_of)
        self.prices = [list(zip(*face)) for face in zip(*columns, *ends)]
        are_valid = all(min(h, l1, n) >= 0 and a <= z for face in self.prices for h, l1, n, a, z in face)
        self.group = number(self.size.get("group", 0))
        self.groups = vector(self.size.get("groups", 0), self.width, "groups")
        demand(are_valid and self.group >= 0, "a price is negative, or a weight has no room")
        if self.kind == "kernel":
            self.factor = number(self.size["factor"])
            is_factor = self.factor > 0 and self.size.keys() <= {"kind", "factor", "variance"}
            demand(is_factor, "with a kernel, FORMAT.md has a size of one positive factor")
        self.share = ZERO
        if "variance" in self.size:
            self.share = number(self.size["variance"]["share"])
            self.weights = vector(self.size["variance"]["weights"], n, "weights")
            demand(self.share > 0 and min(self.weights) > 0, "the variance has a wrong share or weight")
        self.grouped = any(self.groups)
        if self.choice:
            places = [len(at) for rows in self.rows for at in rows.at]
            are_alike = all(face == self.prices[0] for face in self.prices) and {*places} <= {0, self.faces}
            has_less = any(any(rows.less) for rows in self.rows)
            demand(are_alike and not has_less and len(self.choice) == 1, "the faces to choose from differ")

    def by_face(self, name: str, default: Json = 0, read: Any = number) -> list[Vector]:
        """Read prices or ends of the weights for each face; one vector may serve all faces."""
        value = self.size.get(name, default)
        has_faces = isinstance(value, dict) and "faces" in value
        parts = typed(list, value["faces"]) if has_faces else [value] * self.faces
        demand(len(parts) == self.faces, f"{name} is not told for each face")
        return [vector(part, self.width, name, read) for part in parts]

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
        mean = sum(map(mul, self.weights, f)) / total
        z = [p * (v - mean) / total for p, v in zip(self.weights, f)]
        return z, sum(map(mul, z, f)) + error * (2 * sum(map(abs, z)) + error)

    def group_squares(self, vectors: list[Vector]) -> dict[Fraction, Fraction]:
        """Return the squared length of each group over all faces; 0 is the key of weights without a group."""
        squares = dict.fromkeys(self.groups, ZERO)
        for w in vectors if self.grouped else []:
            for group, v in zip(self.groups, w):
                squares[group] += v * v
        return squares

    def value(self, point: Json) -> tuple[Fraction, list[Vector]]:
        """Return an upper bound on the objective at a feasible point, and the slopes of variances."""
        faces = [vector(w, self.width, "w") for w in typed(list, point["w"])]
        b = vector(point["b"], self.faces, "b") if self.intercept else [ZERO] * self.faces
        has_form = len(faces) == self.faces and (self.intercept or point.get("b", []) == [])
        demand(has_form, "the point has another number of faces, or a b without an intercept")
        total, squares, scores, errors, slopes = self.constant, [], [], [], []
        for w, b_k, prices in zip(faces, b, self.prices):
            f, error = self.through(w, True)
            is_inside = all(low <= v <= high for v, (*_, low, high) in zip(w, prices))
            demand(is_inside, "the point is outside its box")
            if "whole" in self.size:
                numerators = common_denominator(w[: self.width - (self.kind == "lifted")])[0]
                most = typed(int, self.size["whole"]) * gcd(*numerators)
                is_whole = max(map(abs, numerators), default=0) <= most
                demand(is_whole, "the weights are no such whole numbers times a scale")
            if self.kind == "kernel":
                squares.append(self.factor * (sum(map(mul, w, f)) + error * sum(map(abs, w))))
            else:
                squares.append(sum(h * v * v for v, (h, *_) in zip(w, prices) if v))
                total += sum(l1 * abs(v) + n for v, (_, l1, n, _, _) in zip(w, prices) if v)
            if self.share:
                z, variance = self.spread(f, error)
                total += self.share / 2 * variance
                slopes.append(z)
            scores.append([v + b_k for v in f])
            errors.append(error)
        total += max(squares) if self.shape == "worst" else sum(squares)
        total += sum(self.group * root(v) for group, v in self.group_squares(faces).items() if group)
        return total + sum(rows.value(scores, max(errors)) for rows in self.rows), slopes

    def multipliers_of(self, node: Json, parent: Json) -> dict[str, list[Vector]]:
        """Return the multipliers of a node by family and face; those that are missing are its parent's."""
        multipliers, told = dict(parent or {}), node.get("rows", {})
        demand(isinstance(told, dict), "multipliers are by the name of the family")
        for name in told:
            parts, before = typed(list, told[name]), multipliers.get(name, [None] * self.faces)
            demand(len(parts) == self.faces, f"{quoted(name)} is not told for each face")
            pairs = zip(parts, before)
            multipliers[name] = [vector(m, self.samples.n, quoted(name), before=old) for m, old in pairs]
        has_all = multipliers.keys() == {rows.name for rows in self.rows}
        demand(has_all, "there must be multipliers of every family")
        return multipliers

    def betas(self, multipliers: dict[str, list[Vector]]) -> list[Vector]:
        """Return beta of each face: the sum of its multipliers, with the sides of their rows."""
        betas = [[ZERO] * self.samples.n for _ in range(self.faces)]
        for rows in self.rows:
            m = multipliers[rows.name]
            for beta, m_k in zip(betas, m):
                beta[:] = [(b + v if s > 0 else b - v) if v else b for b, s, v in zip(beta, rows.side, m_k)]
            for i, less in enumerate(rows.less):
                for k in less:
                    betas[k][i] -= rows.side[i] * sum(m_k[i] for m_k in m)
        return betas

    def price(self, k: int, beta: Vector, share: Fraction, held: Vector) -> Fraction:
        """Return an upper bound on the price of a face's multipliers."""
        v, error = self.through(beta, False)
        if self.kind == "kernel":
            return (sum(map(mul, beta, v)) + error * sum(map(abs, beta))) / (4 * self.factor)
        v = [a - q for a, q in zip(v, held)] if held else v
        return sum((conjugate(a, price, share, error) for a, price in zip(v, self.prices[k])), ZERO)

    def bound(self, leaf: Json, slopes: list[Vector], parent: Json = None) -> tuple[Fraction, Fraction]:
        """Return gain and price of a leaf's multipliers, whose difference is the bound that they prove."""
        multipliers = self.multipliers_of(leaf, parent)
        gain = self.constant + sum(rows.gain(multipliers[rows.name]) for rows in self.rows)
        betas, price = self.betas(multipliers), ZERO
        is_balanced = not self.intercept or not any(sum(common_denominator(beta)[0]) for beta in betas)
        demand(is_balanced, "the multipliers are not in balance")
        for beta, z in zip(betas, slopes):
            beta[:] = [b - self.share * v for b, v in zip(beta, z)]
            squares = sum(v * v / p for v, p in zip(z, self.weights))
            price += self.share / 2 * sum(self.weights) * squares
        shares, held = [Fraction(1)] * self.faces, [list[Fraction]()] * self.faces
        if self.shape == "worst":
            shares = vector(leaf["shares"], self.faces, "shares")
            demand(sum(shares) == 1 and min(shares) >= 0, "the shares do not divide 1")
        if self.grouped:
            held = [vector(q, self.width, "held") for q in typed(list, leaf["held"])]
            lengths = self.group_squares(held)
            is_feasible = all(square <= (g and self.group) ** 2 for g, square in lengths.items())
            demand(is_feasible and len(held) == self.faces, "a group holds more than its price")
        return gain, price + sum(map(self.price, range(self.faces), betas, shares, held))

    def least_bound(self, node: Json, slopes: list[Vector], parent: Json = None, used: int = 0) -> Fraction:
        """Return the least bound of all leaves of a tree; the first `used` faces have decided samples."""
        if "ways" not in node:
            self.leaves += 1
            gain, price = self.bound(node, slopes, parent)
            return gain - price
        ways, multipliers, bounds = typed(list, node["ways"]), self.multipliers_of(node, parent), []
        if self.choice:
            i, rows = typed(int, node["sample"]), self.choice[0]
            is_open = 0 <= i < self.samples.n and rows.one[i] and not rows.at[i]
            demand(is_open and len(ways) == min(used + 1, self.faces), f"sample {i} has other ways, or none")
            for k, way in enumerate(ways):
                rows.at[i] = [k]
                bounds.append(self.least_bound(way, slopes, multipliers, max(used, k + 1)))
            rows.at[i] = []
            return min(bounds)
        j, constant = typed(int, node["weight"]), self.constant
        demand(0 <= j < self.width and len(ways) == 2, f"weight {j} has other ways, or none")
        h, l1, n, low, high = before = self.prices[0][j]
        cases = ((h, l1, n, ZERO, ZERO), constant), ((h, l1, ZERO, low, high), constant + n)
        for way, case in zip(ways, cases):
            self.prices[0][j], self.constant = case
            bounds.append(self.least_bound(way, slopes, multipliers))
        self.prices[0][j], self.constant = before, constant
        return min(bounds)


def rounded(value: Fraction, up: bool) -> str:
    """Return a double that is next to a number and not below it (up), or not above it."""
    if abs(value) >= 1 << 1023:
        return f"a number of about {value.numerator.bit_length() - value.denominator.bit_length()} bits"
    found = float(value)
    return repr(found if found == value else nextafter(found, inf if up else -inf))


def prove(claim: Json, path: str, say: Callable[[str], None]) -> None:
    """Prove a claim, as parse_json read it, step by step."""
    kind = chosen(claim["kind"], "bounds", "infeasible")
    rows, m, y = load_samples(claim["data"], path)
    say(f"the data are read: {len(y)} samples of {m} features, {y.count(1)} of them +1")
    demand(digest(rows, m, y) == claim["data"]["sha256"], "the samples are not those of the claim")
    say("they have the digest of the claim")
    program, multipliers = Program(claim["program"], rows, m, y), claim["multipliers"]
    if kind == "infeasible":
        gain, price = program.bound(multipliers, [])
        is_hard = program.is_square and all(cap is None for family in program.rows for cap in family.cap)
        is_alone = claim.get("point", {}) == claim.get("claim", {}) == {}
        is_ray = is_hard and is_alone and gain > program.constant and not price
        demand(is_ray, "the multipliers are no ray, as FORMAT.md has it")
        say("the multipliers are a ray: no point keeps the rows without slack")
    else:
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
    typed(str, claim["title"])
    parts: list[Json] = [claim]
    for part in parts:  # those of a part come after it
        if type(part) is Fields:
            demand(not part.unread, f"FORMAT.md has no {quoted(sorted(part.unread))} in such a claim")
        below = part.values() if type(part) is Fields else part
        parts += [value for value in below if type(value) in (list, Fields)]


@refusing()
def check(claim: Json, path: str, say: Callable[[str], None]) -> None:
    """Prove a claim step by step, or raise Refused."""
    prove(parse_json(json.dumps(claim)), path, say)


def claims_of(path: str) -> list[Json]:
    """Return the claims in a file, unchecked."""
    with open(path, "rb") as file:
        content = file.read(MAX_FILE_BYTES + 1)
    demand(len(content) <= MAX_FILE_BYTES, f"a claim file has at most {MAX_FILE_BYTES >> 20} MB")
    told = typed(Fields, parse_json(content.decode("utf-8")))
    is_known = told["format"] == "polyopt claim" and typed(int, told["version"]) in (1, 2)
    demand(is_known and len(told) == 3, "it is not a file of claims, as FORMAT.md has it")
    demand(1 <= len(typed(list, told["claims"])) <= 5000, "a file has from 1 to 5000 claims")
    return told["claims"]


def limit(seconds: int) -> None:
    """Let this process take so many seconds of the processor more (0: any), and no more than MAX_MEMORY."""
    if sys.platform == "win32":  # it has no such limits
        return
    import resource

    def stop(*_: Any) -> None:
        raise Refused(f"the claims take more than {seconds} seconds (--seconds allows more)")

    signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    hard = resource.getrlimit(resource.RLIMIT_AS)[1]
    most = MAX_MEMORY if hard == resource.RLIM_INFINITY else min(MAX_MEMORY, hard)
    resource.setrlimit(resource.RLIMIT_AS, (most, hard))


def main(arguments: list[str] | None = None) -> int:
    """Return the exit status; by default the arguments are the process's, which is limited then."""
    status = "exit status: 0 if every step holds, 1 if a claim is refused, 2 for wrong arguments"
    parser = argparse.ArgumentParser("check.py", description=(__doc__ or "").replace("``", ""), epilog=status)
    seconds = "of the processor, for all claims together (50); these and a gigabyte are no limits on Windows"
    parser.add_argument("--seconds", type=int, default=50, help=seconds)
    parser.add_argument("claim", help="a file of claims in JSON, written by polyopt")
    parser.add_argument("data", help="the samples: a CSV table or an svmlight file")
    options = parser.parse_args(arguments)
    steps = count(1)

    def say(text: str) -> None:
        print(f"{next(steps):3}. {text}: yes")

    try:
        with refusing():
            if arguments is None:
                limit(options.seconds)
            for claim in claims_of(options.claim):
                say(f"a claim on {quoted(claim['title'])} is read")
                prove(claim, options.data, say)
    except (Refused, KeyboardInterrupt) as why:
        print(f"Refused: {str(why) or 'interrupted'}")
        return 130 if isinstance(why, KeyboardInterrupt) else 1
    finally:
        if arguments is None:
            limit(0)  # the verdict is known
    print("Every step holds.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
