"""Check a claim about a large-margin classifier in exact arithmetic: ``python check.py claim.json data``.

Each step that holds is printed. The last line is "Every step holds.", or it begins with "Refused:". This file
needs Python 3.11 and nothing else; copy it where you like. FORMAT.md has the form of claims and data, and the
mathematics: a program is a sum of convex functions, whose conjugates at multipliers prove a bound.

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
from functools import cache, partial
from itertools import chain
from math import inf, isfinite, isqrt, lcm, nextafter
from operator import mul, sub, truediv
from typing import Any

Json = Any  # a value of a claim, of no certain type
Vector = list[Fraction]
Cells = dict[int, float]  # a sample: its values that are not 0, by column

UNIT, ZERO, ONE = Fraction(1, 1 << 128), Fraction(0), Fraction(1)
DIGITS = Context(prec=45)  # decimal rounds ln correctly
NUMBER = re.compile(r"-?\d{1,4000}(/\d{1,4000})?", re.ASCII)
DECIMAL = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d{1,3})?", re.ASCII)  # in the data
MAX_FILE_BYTES, MAX_MEMORY_BYTES = 64 << 20, 1_000_000_000
MAX_BITS = 20_000  # of a common denominator
MAX_FACES, MAX_FEATURES = 10_000, 2_000_000
MAX_NUMBERS = 5_000_000  # multipliers and weights at once, each some 100 bytes


class Refused(Exception):
    """The claim is not proven; the text says why."""


def demand(holds: Any, why: str) -> None:
    if not holds:
        raise Refused(why)


def quoted(value: Json) -> str:
    """Quote a value of a file for messages: short, in ASCII, without control characters."""
    return ascii(value)[:60]


@contextmanager
def refusing() -> Iterator[None]:
    """Turn any error of a broken file into Refused."""
    try:
        yield
    except Refused:
        raise
    except Exception as error:
        raise Refused(f"this cannot be read: {type(error).__name__}, {quoted(str(error))}") from error


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


def typed(kind: type, value: Json) -> Json:
    """Return a value, which must be of this type: True is not a whole number."""
    if type(value) is not kind:
        raise Refused(f"{quoted(value)} is not of the type {kind.__name__}, as FORMAT.md has it")
    return value


def number(value: Json) -> Any:
    """Read a whole number, "p" or "p/q"."""
    if type(value) is not int:
        demand(NUMBER.fullmatch(typed(str, value)), f"{quoted(value)} is not a number")
    return Fraction(value)


def extended(value: Json) -> Any:
    """Read a number, "inf" or "-inf"."""
    return float(value) if value in ("inf", "-inf") else number(value)


def vector(value: Json, size: int, read: Any = number, before: Vector | None = None) -> list[Any]:
    """Read a list, one value for all, or {"at": places, "is": values}: others are as `before`, or zeros."""
    if type(value) is list:
        demand(len(value) == size, f"a list has {len(value)} values in place of {size}")
        return list(map(read, value))
    if not isinstance(value, dict):
        return [read(value)] * size
    places, values = typed(list, value["at"]), typed(list, value["is"])
    demand(len(set(places)) == len(places) == len(values), "places and values do not match, or stand twice")
    entries = list(before or [ZERO] * size)
    for k, element in zip(places, values):
        demand(0 <= typed(int, k) < size, f"place {k} of {size} is out of range")
        entries[k] = read(element)
    return entries


def common_denominator(values: Vector) -> tuple[list[int], int]:
    """Return integers and their common denominator."""
    den = lcm(*{value.denominator for value in values})
    demand(den.bit_length() <= MAX_BITS, "the denominators have no small common multiple")
    return [value.numerator * (den // value.denominator) for value in values], den


def ln(x: Fraction) -> Fraction:
    """Return ln x, within UNIT."""
    return Fraction(DIGITS.ln(DIGITS.divide(Decimal(x.numerator), Decimal(x.denominator))))


def exp(top: int, den: int) -> int:
    """Return exp(top / den) for top <= 0, as a whole number of UNIT that is off by less than one.

    exp(x / 2^16), by 13 terms of its series in units of 2^-160, is squared 16 times. The terms are off by
    less than 2^-155 together; a square doubles the error at most and adds a unit, so it ends below 2^-138.
    """
    if top < -90 * den:
        return 0  # exp(-90) < UNIT / 2
    x, power, term = (top << 144) // den, 1 << 160, 1 << 160
    for j in range(1, 14):
        term = (term * x >> 160) // j
        power += term
    for _ in range(16):
        power = power * power >> 160
    return power + (1 << 31) >> 32


def soft_max(t: Vector, sharp: Fraction = ONE) -> Fraction:
    """Return a number from (1/g) ln sum exp(g t) to 2 (k + 1) UNIT / g above it, for k numbers t."""
    gaps = [sharp * (v - max(t)) for v in t]
    return max(t) + (ln(UNIT * sum(exp(v.numerator, v.denominator) + 1 for v in gaps)) + UNIT) / sharp


def entropy(shares: Vector) -> Fraction:
    """Return a number from H to 2 UNIT below it, for shares that add up to 1."""
    return -sum((p * (ln(p) + UNIT) for p in shares if p > 0), ZERO)


def root(x: Fraction) -> Fraction:
    """Return a number from the square root to UNIT above it."""
    return UNIT * (isqrt(x.numerator * UNIT.denominator**2 // x.denominator) + 1) if x else x


# For each loss, upper bounds on C phi(t), for t within e, and on C phi*(m / C), inf if m is out of range.
LOSSES: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "hinge": (lambda C, t, e: C * max(ZERO, t + e), lambda C, m: ZERO if 0 <= m <= C else inf),
    "logistic": (
        lambda C, t, e: C * soft_max([ZERO, t + e]),
        lambda C, m: -C * entropy([m / C, 1 - m / C]) if 0 < m <= C else inf if m else ZERO,
    ),
    "linear": (lambda C, t, e: C * (t + e), lambda C, m: ZERO if m == C else inf),
    "square": (
        lambda C, t, e: C / 2 * (abs(t) + e) ** 2,
        lambda C, m: m * m / (2 * C) if C else inf if m else ZERO,
    ),
}


def conjugate(v: Fraction, price: tuple[Any, ...], share: Fraction, error: Fraction) -> Fraction:
    """Return the largest v w - share h w^2 - l |w| - (n if w is not 0) in the box, v being within `error`.

    price: the numbers h, l, n, low and high of a weight.
    """
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


def finite_double(text: str) -> float:
    """Read a cell of the data."""
    is_finite = DECIMAL.fullmatch(text) and isfinite(float(text))
    demand(is_finite, f"{quoted(text)} in the data is not a finite number")
    return float(text)


def from_svmlight(path: str) -> Iterator[tuple[Cells, str]]:
    """Yield samples and labels of lines "label column:value ...", columns from 1 and rising."""
    with open(path, encoding="utf-8-sig", errors="surrogateescape", newline="\n") as file:
        for label, *words in filter(None, (line.partition("#")[0].split() for line in file)):
            pairs = [word.partition(":")[::2] for word in words]
            are_columns = all(re.fullmatch("[0-9]{1,10}", place) for place, _ in pairs)
            demand(are_columns, f"the data have a line with {quoted(words)}, which are no columns and values")
            row = {int(place) - 1: finite_double(value) for place, value in pairs}
            do_rise = list(row) == sorted(row) and len(row) == len(pairs) and -1 not in row
            demand(do_rise, f"the data have columns that do not rise from 1: {quoted(words)}")
            finite_double(label)
            yield row, label


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
    m, labels = typed(int, data["features"]), data["labels"]
    demand(1 <= m <= MAX_FEATURES, "the number of features is out of range")
    signs = {plain(typed(str, labels["-1"])): -1, plain(typed(str, labels["+1"])): 1}
    operands = {name: vector(data[name], m) for name in STEPS if name in data}
    steps = [(STEPS[name], list(map(float, operand))) for name, operand in operands.items()]
    are_doubles = [operand for _, operand in steps] == list(operands.values())
    demand(are_doubles and all(operands.get("divide", [1])), "a step is not of doubles, or divides by 0")
    runs = (range(typed(int, start), typed(int, end)) for start, end in typed(list, data["rows"]))
    wanted, rows, y = chain.from_iterable(runs), [], []
    next_row = next(wanted, None)
    samples = from_table(path, data["table"]) if "table" in data else from_svmlight(path)
    for i, (cells, label) in enumerate(samples):
        is_dense = len(cells) == m or not {"table", "shift"} & data.keys()
        demand(is_dense and max(cells, default=0) < m, f"a sample of the data has not {m} features")
        if i == next_row:
            for operation, operand in steps:
                cells = {j: operation(x, operand[j]) for j, x in cells.items()}
            demand(all(map(isfinite, cells.values())), "the data hold a number that is not finite")
            rows.append({j: x for j, x in cells.items() if x})
            y.append(signs.get(plain(label), 0))
            next_row = next(wanted, None)
    are_found = rows and next_row is None and 0 not in y and len(signs) == 2
    demand(are_found, "there are no such samples, or their labels are not the two of the claim")
    return rows, m, y


def digest(rows: list[Cells], m: int, y: list[int]) -> str:
    """Return SHA-256 of n, m and, for each sample, y, the number of cells, their columns, and doubles."""
    sha = hashlib.sha256(struct.pack("<QQ", len(rows), m))
    for row, label in zip(rows, y):
        sha.update(struct.pack(f"<bQ{len(row)}Q{len(row)}d", label, len(row), *row.keys(), *row.values()))
    return sha.hexdigest()


class Features:
    """Features in whole numbers over a denominator: X, X with a 1, or a kernel matrix.

    rows: of each sample its columns and their numbers, times `den`; for a kernel those of X.
    unit: bound on the error of a feature.
    """

    def __init__(self, fields: Json, cells: list[Cells], m: int):
        self.kind, self.width, self.unit = fields["kind"], m, ZERO
        demand(self.kind in ("plain", "lifted", "poly", "rbf"), f"there are no features {quoted(self.kind)}")
        if self.kind == "lifted":
            cells, self.width = [row | {m: 1.0} for row in cells], m + 1
        self.den = lcm(*{x.as_integer_ratio()[1] for row in cells for x in row.values()})
        ratios = ([x.as_integer_ratio() for x in row.values()] for row in cells)
        whole = ([p * (self.den // q) for p, q in row] for row in ratios)
        self.rows: list[Any] = list(zip(map(list, cells), whole))
        self.is_kernel, self.is_norm = self.kind in ("poly", "rbf"), False  # w'Kw is not negative
        if self.is_kernel:
            self.become_kernel(fields)

    def become_kernel(self, fields: Json) -> None:
        """Make `column(j)`, which has k(x_i, x_j) for all i; exp is rounded to a whole number of UNIT."""
        coef0, degree = ZERO, 1
        if self.kind == "poly":
            coef0, degree = number(fields["coef0"]), typed(int, fields["degree"])
        (scale, shift), den = common_denominator([number(fields["gamma"]) / self.den**2, coef0])
        demand(scale > 0 and 1 <= degree <= 20, "a number of the kernel is out of range")
        self.is_norm, m = shift >= 0, self.width
        squares = [sum(map(mul, x, x)) for _, x in self.rows]

        @cache
        def column(j: int) -> list[int]:
            x = [0] * m
            for k, value in zip(*self.rows[j]):
                x[k] = value
            products = [sum(map(mul, z, map(x.__getitem__, at))) for at, z in self.rows]
            if self.kind == "poly":
                return [(scale * p + shift) ** degree for p in products]
            return [exp(scale * (2 * p - a - squares[j]), den) for p, a in zip(products, squares)]

        self.column, self.width = column, len(squares)
        if self.kind == "poly":
            self.den = den**degree
        else:
            self.den, self.unit = UNIT.denominator, UNIT

    def scores(self, w: Vector) -> tuple[Vector, Fraction]:
        """Return the scores of weights w, without b, and a bound on the error of each."""
        factors, den = common_denominator(w)
        sums = [0] * len(self.rows)
        if self.is_kernel:
            for j, factor in enumerate(factors):
                sums = [v + factor * k for v, k in zip(sums, self.column(j))] if factor else sums
        else:
            sums = [sum(map(mul, x, map(factors.__getitem__, at))) for at, x in self.rows]
        return [Fraction(v, den * self.den) for v in sums], self.unit * sum(map(abs, w))

    def pull(self, beta: Vector) -> tuple[Vector, Fraction]:
        """Return the sum of beta_i times the features of sample i, and a bound on the error of each entry."""
        if self.is_kernel:
            return self.scores(beta)  # the matrix is symmetric
        (factors, den), sums = common_denominator(beta), [0] * self.width
        for factor, (at, x) in zip(factors, self.rows):
            for j, value in zip(at, x) if factor else ():
                sums[j] += factor * value
        return [Fraction(v, den * self.den) for v in sums], ZERO


class Rows:
    """A family of losses C phi(t) of each sample, where t = kink - side (f_k - sum of f at the faces `less`).

    at: of each sample the faces k at which it pays, in the way `pays`.
    one: of each sample True if it pays at the cheapest face alone; a node of a tree puts the face into `at`.
    """

    def __init__(self, fields: Json, y: list[int], faces: int):
        def faces_of(value: Json) -> Any:
            """Read "all", "none", a face, or a list of faces, each once."""
            if type(value) is str:
                return {"all": range(faces), "none": ()}[value]
            found = value if type(value) is list else [value]
            exist = all(0 <= typed(int, k) < faces for k in found) and len({*found}) == len(found)
            demand(exist, f"{self.title}: a face is out of range, or stands twice")
            return found

        self.name, self.kink, n = typed(str, fields["name"]), number(fields["kink"]), len(y)
        self.title, side, at = quoted(self.name), fields["side"], fields.get("at", "all")
        self.loss, self.pays = fields.get("loss", "hinge"), fields.get("pays", "sum")
        self.sharp = number(fields["sharp"]) if self.pays == "soft" else ONE
        self.side = y if side == "label" else [typed(int, side)] * n
        self.cap = vector(fields["cap"], n, extended)
        self.one = vector(at, n, lambda value: value == "one")
        self.at = vector(at, n, lambda value: () if value == "one" else faces_of(value))
        self.less = vector(fields.get("less", "none"), n, faces_of)
        is_known = self.side[0] in (1, -1) and self.loss in LOSSES and self.pays in ("sum", "worst", "soft")
        demand(is_known, f"{self.title}: FORMAT.md has another side, loss, or way to pay")
        is_hinge, is_square = self.loss == "hinge", self.loss == "square"
        are_valid = min(self.cap) >= 0 < self.sharp and (is_hinge or inf not in self.cap)
        demand(are_valid, f"{self.title}: a negative cap or sharpness, or an infinite cap of no hinge")
        is_alone = self.pays == "sum" and not any(self.less)
        is_convex = (is_alone or not is_square) and (is_hinge or self.loss == "logistic" or not any(self.one))
        demand(is_convex, f"{self.title}: this loss is of single scores, and not at one of the faces")

    def paid(self) -> Iterator[tuple[int, Any]]:
        """Yield samples with faces that pay together, which are single ones if a sample pays a sum."""
        for i, at in enumerate(self.at):
            if self.pays == "sum":
                yield from ((i, [k]) for k in at)
            elif at:
                yield i, at

    def value(self, f: list[Vector], error: Fraction) -> Fraction:
        """Return an upper bound on the losses at scores (by face) that are each within `error`."""
        if self.loss == "square":  # of scores with the best intercept of their own
            means = [sum(map(mul, self.cap, f_k)) / (sum(self.cap) or ONE) for f_k in f]
            f = [[v - mean for v in f_k] for f_k, mean in zip(f, means)]

        def pay(i: int, faces: Any, join: Callable[[Vector], Fraction]) -> Fraction:
            less, e = sum(f[k][i] for k in self.less[i]), error * (1 + len(self.less[i]))
            t = [self.kink - self.side[i] * (f[k][i] - less) for k in faces]
            is_soft = self.cap[i] < inf
            demand(is_soft or max(t) + e <= 0, f"the point breaks the row {self.title} of sample {i}")
            return LOSSES[self.loss][0](self.cap[i], join(t), e) if is_soft else ZERO

        join = partial(soft_max, sharp=self.sharp) if self.pays == "soft" else max
        least = sum((pay(i, range(len(f)), min) for i, is_one in enumerate(self.one) if is_one), ZERO)
        return sum((pay(i, faces, join) for i, faces in self.paid()), least)

    def gain(self, m: list[Vector]) -> Fraction:
        """Return what feasible multipliers (by face) add to the bound: c m less the conjugates at them."""
        total = ZERO
        for i, faces in self.paid():
            cap, parts = self.cap[i], [m[k][i] for k in faces]
            if any(parts) or self.loss == "linear":
                m_i = sum(parts)
                price = LOSSES[self.loss][1](cap, m_i)
                is_feasible = price < inf and (len(parts) == 1 or min(parts) >= 0)
                demand(is_feasible, f"{self.title}: a multiplier of sample {i} is negative or beyond its cap")
                total += self.kink * m_i - price
                if self.pays == "soft" and m_i:
                    total += m_i / self.sharp * entropy([v / m_i for v in parts])
        is_balanced = self.loss != "square" or not any(sum(map(mul, self.side, m_k)) for m_k in m)
        demand(is_balanced, f"{self.title}: its multipliers are not in balance")
        return total


# The fields of a size that are vectors by weight, h, l, n, low and high, and their values if missing.
PRICES = {"factor": 0, "l1": 0, "count": 0, "low": "-inf", "high": "inf"}


class Program:
    """Features, size and rows: the value of a point, and the bound of multipliers.

    prices: by face, then by weight, the numbers h, l, n, low and high.
    choice: the family, if any, of samples that pay at one of all faces, in a list.
    leaves: number of cases of a tree that were proven.
    """

    def __init__(self, fields: Json, cells: list[Cells], m: int, y: list[int]):
        self.size, families, self.n = fields["size"], typed(list, fields["rows"]), len(y)
        self.faces, self.intercept = typed(int, fields["faces"]), typed(bool, fields["intercept"])
        self.features = Features(fields["features"], cells, m)
        self.shape, self.width = self.size["kind"], self.features.width
        self.constant, self.group = number(fields.get("constant", 0)), number(self.size.get("group", 0))
        n_numbers = self.faces * (self.n + self.width) * (len(families) + 2)
        is_small = 1 <= self.faces <= MAX_FACES and n_numbers <= MAX_NUMBERS
        demand(is_small, f"there are not from 1 to {MAX_FACES} faces, or more than {MAX_NUMBERS} numbers")
        self.rows, self.leaves = [Rows(family, y, self.faces) for family in families], 0
        demand(len({rows.name for rows in self.rows}) == len(self.rows), "two families have one name")
        columns = (self.by_face(self.size.get(*price), self.width, extended) for price in PRICES.items())
        self.prices = [list(zip(*face)) for face in zip(*columns)]
        self.groups = vector(self.size.get("groups", 0), self.width)
        prices = {price for face in self.prices for price in face}
        are_prices = all(0 <= min(h, l1, n) <= max(h, l1, n) < inf for h, l1, n, _, _ in prices)
        have_room = all(low <= high for *_, low, high in prices)
        demand(are_prices and have_room and self.group >= 0, "a price is negative, or a weight has no room")
        demand(self.shape in ("square", "worst", "kernel"), f"there is no size {quoted(self.shape)}")
        if self.shape == "kernel":
            self.factor = self.prices[0][0][0]
            is_norm = prices == {(self.factor, 0, 0, -inf, inf)} and self.factor > 0
            has_norm = is_norm and self.features.is_norm
            demand(has_norm, "w'Kw has a kernel that is semidefinite, and a positive factor alone")
        self.choice = [rows for rows in self.rows if any(rows.one)]
        if self.choice:
            places = {len(at) for rows in self.rows for at in rows.at}
            are_alike = len({*map(tuple, self.prices)}) == 1 and places <= {0, self.faces}
            has_less = any(any(rows.less) for rows in self.rows)
            demand(are_alike and not has_less and len(self.choice) == 1, "the faces to choose from differ")

    def by_face(self, value: Json, size: int, read: Any = number, before: Json = None) -> list[Vector]:
        """Read a list of a vector for each face, or one vector for all, which is not told by a list."""
        parts = value if type(value) is list else [value] * self.faces
        demand(len(parts) == self.faces, f"a list has {len(parts)} vectors for {self.faces} faces")
        return [vector(part, size, read, old) for part, old in zip(parts, before or [None] * self.faces)]

    def group_squares(self, W: list[Vector]) -> dict[Fraction, Fraction]:
        """Return the squared length of each group over all faces; 0 is the key of weights without a group."""
        squares = dict.fromkeys(self.groups, ZERO)
        for w in W:
            for group, v in zip(self.groups, w):
                squares[group] += v * v
        return squares

    def value(self, point: Json) -> Fraction:
        """Return an upper bound on the objective at a feasible point."""
        W = self.by_face(point["w"], self.width)
        b = vector(point["b"], self.faces) if self.intercept else [ZERO] * self.faces
        total, scores, squares, error = self.constant, [], [], ZERO
        for w, b_k, prices in zip(W, b, self.prices):
            f, e = self.features.scores(w)
            scores.append([v + b_k for v in f])
            error = max(error, e)
            is_inside = all(low <= v <= high for v, (*_, low, high) in zip(w, prices))
            demand(is_inside, "the point is outside its box")
            total += sum(l1 * abs(v) + n for v, (_, l1, n, _, _) in zip(w, prices) if v)
            if self.shape == "kernel":
                squares.append(self.factor * (sum(map(mul, w, f)) + e * sum(map(abs, w))))
            else:
                squares.append(sum(h * v * v for v, (h, *_) in zip(w, prices) if v))
        total += max(squares) if self.shape == "worst" else sum(squares)
        total += sum(self.group * root(square) for group, square in self.group_squares(W).items() if group)
        return total + sum(rows.value(scores, error) for rows in self.rows)

    def multipliers_of(self, node: Json, parent: Json) -> dict[str, list[Vector]]:
        """Return the multipliers of a node by family and face; those that are missing are its parent's."""
        multipliers, given = dict(parent or {}), node.get("rows", {})
        demand(isinstance(given, dict), "multipliers are by the name of the family")
        for name in (rows.name for rows in self.rows):
            if name in given or not parent:
                multipliers[name] = self.by_face(given[name], self.n, number, multipliers.get(name))
        return multipliers

    def betas(self, multipliers: dict[str, list[Vector]]) -> list[Vector]:
        """Return beta of each face: the sum of its multipliers, with the sides of their rows."""
        betas = [[ZERO] * self.n for _ in range(self.faces)]
        for rows in self.rows:
            for k, m in enumerate(multipliers[rows.name]):
                for i in (i for i, v in enumerate(m) if v):
                    demand(k in rows.at[i], f"{rows.title}: a multiplier has no row")
                    pull = m[i] if rows.side[i] > 0 else -m[i]
                    betas[k][i] += pull
                    for less in rows.less[i]:
                        betas[less][i] -= pull
        return betas

    def price(self, k: int, beta: Vector, share: Fraction, held: Vector) -> Fraction:
        """Return an upper bound on the price of a face's multipliers."""
        v, error = self.features.pull(beta)
        if self.shape == "kernel":
            return (sum(map(mul, beta, v)) + error * sum(map(abs, beta))) / (4 * self.factor)
        pulls = zip(v, held, self.prices[k])
        return sum((conjugate(a - q, price, share, error) for a, q, price in pulls), ZERO)

    def bound(self, leaf: Json, parent: Json = None) -> tuple[Fraction, Fraction]:
        """Return gain and price of a leaf's multipliers, whose difference is the bound that they prove."""
        multipliers = self.multipliers_of(leaf, parent)
        gain, betas = sum(rows.gain(multipliers[rows.name]) for rows in self.rows), self.betas(multipliers)
        demand(not (self.intercept and any(map(sum, betas))), "the multipliers are not in balance")
        shares, held = [ONE] * self.faces, [[ZERO] * self.width] * self.faces
        if self.shape == "worst":
            shares = vector(leaf["shares"], self.faces)
            demand(sum(shares) == 1 and min(shares) >= 0, "the shares do not divide 1")
        if any(self.groups):
            held = self.by_face(leaf["held"], self.width)
            squares = self.group_squares(held).items()
            is_feasible = all(square <= (group and self.group) ** 2 for group, square in squares)
            demand(is_feasible, "a group holds more than its price")
        return self.constant + gain, sum(map(self.price, range(self.faces), betas, shares, held), ZERO)

    def cases(self, node: Json, used: int) -> Iterator[int]:
        """Enter each case of a node in turn, and yield how many faces have decided samples then."""
        if self.choice:
            i, rows = typed(int, node["sample"]), self.choice[0]
            demand(0 <= i < self.n and rows.one[i] and not rows.at[i], f"sample {i} is not to be decided")
            for k in range(min(used + 1, self.faces)):
                rows.at[i] = [k]
                yield max(used, k + 1)
            rows.at[i] = ()
        else:
            j, constant = typed(int, node["weight"]), self.constant
            demand(0 <= j < self.width, f"there is no weight {j}")
            h, l1, n, low, high = before = self.prices[0][j]
            self.prices[0][j] = h, l1, n, ZERO, ZERO
            yield used
            self.prices[0][j], self.constant = (h, l1, ZERO, low, high), constant + n
            yield used
            self.prices[0][j], self.constant = before, constant

    def least_bound(self, node: Json, parent: Json = None, used: int = 0) -> Fraction:
        """Return the least bound of all leaves of a tree; the first `used` faces have decided samples."""
        if "ways" not in node:
            self.leaves += 1
            gain, price = self.bound(node, parent)
            return gain - price
        ways, multipliers = typed(list, node["ways"]), self.multipliers_of(node, parent)
        cases = zip(ways, self.cases(node, used), strict=True)
        return min([self.least_bound(way, multipliers, used) for way, used in cases])


def rounded(value: Fraction, up: bool) -> str:
    """Return a double that is next to a number and not below it (up), or not above it."""
    found = float(value)
    return repr(found if found == value else nextafter(found, inf if up else -inf))


@refusing()
def prove(claim: Json, path: str, say: Callable[[str], None]) -> None:
    """Prove a claim, an object of Fields, step by step."""
    say(f"A claim on {quoted(typed(str, claim['title']))} is read.")
    rows, m, y = load_samples(claim["data"], path)
    say(f"The data are read: {len(y)} samples of {m} features, {y.count(1)} of them +1.")
    demand(digest(rows, m, y) == claim["data"]["sha256"], "the samples are not those of the claim")
    say("They have the digest of the claim.")
    program, multipliers = Program(claim["program"], rows, m, y), claim["multipliers"]
    if claim["kind"] == "infeasible":
        gain, price = program.bound(multipliers)
        is_hard = program.size.keys() <= {"kind", "factor"} and all({*r.cap} == {inf} for r in program.rows)
        is_ray = is_hard and gain > program.constant and not price
        demand(is_ray, "the multipliers are no ray, as FORMAT.md has it")
        say("The multipliers are a ray: no point keeps the rows without slack.")
    else:
        demand(claim["kind"] == "bounds", f"there is no kind {quoted(claim['kind'])} of claims")
        high, low, gap = (number(claim["claim"][name]) for name in ("value", "bound", "gap"))
        value = program.value(claim["point"])
        demand(value <= high, f"the value is {rounded(value, False)}, above the one that is claimed")
        say(f"The point keeps its constraints, and its value is at most {rounded(high, True)}, as claimed.")
        bound = program.least_bound(multipliers)
        demand(bound >= low, f"the bound is {rounded(bound, True)}, below the one that is claimed")
        least = rounded(low, False)
        say(f"The multipliers of {program.leaves} cases, all there are, prove {least}, as claimed.")
        demand(high - low <= gap, "the gap is larger than claimed")
        say(f"No point is better by more than {rounded(gap, True)}, as claimed.")
    parts: list[Json] = [claim]
    for part in parts:  # those of a part come after it
        if type(part) is Fields:
            demand(not part.unread, f"FORMAT.md has no {quoted(sorted(part.unread))} in such a claim")
        below = part.values() if type(part) is Fields else part
        parts += [value for value in below if type(value) in (list, Fields)]


@refusing()
def check(claim: Json, path: str, say: Callable[[str], None]) -> None:
    """Prove a claim step by step, or raise Refused."""
    prove(json.loads(json.dumps(claim), object_pairs_hook=Fields), path, say)


@refusing()
def claims_of(path: str) -> list[Json]:
    """Return the claims in a file, unchecked."""
    with open(path, "rb") as file:
        content = file.read(MAX_FILE_BYTES + 1)
    demand(len(content) <= MAX_FILE_BYTES, f"a claim file has at most {MAX_FILE_BYTES >> 20} MB")
    fields = typed(Fields, json.loads(content.decode("utf-8"), object_pairs_hook=Fields))
    is_known = fields["format"] == "polyopt claim" and len(fields) == 3
    demand(is_known, "it is not a file of claims, as FORMAT.md has it")
    version = typed(int, fields["version"])
    demand(version == 3, f"its version is {version}, and this checker's is 3: save it anew with this polyopt")
    demand(1 <= len(typed(list, fields["claims"])) <= 5000, "a file has from 1 to 5000 claims")
    return fields["claims"]


def limit(seconds: int) -> None:
    """Let this process take so many more seconds of the processor (0: any), and MAX_MEMORY_BYTES at most."""
    if sys.platform == "win32":  # it has no such limits
        return
    import resource

    def stop(*_: Any) -> None:
        raise Refused(f"the claims take more than {seconds} seconds (--seconds allows more)")

    signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    hard = resource.getrlimit(resource.RLIMIT_AS)[1]
    most = MAX_MEMORY_BYTES if hard == resource.RLIM_INFINITY else min(MAX_MEMORY_BYTES, hard)
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
    try:
        if arguments is None:
            limit(options.seconds)
        for claim in claims_of(options.claim):
            prove(claim, options.data, print)
    except Refused as why:
        print(f"Refused: {why}")
        return 1
    finally:
        if arguments is None:
            limit(0)  # the verdict is known
    print("Every step holds.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
