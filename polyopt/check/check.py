"""Check a claim about a large-margin classifier in exact arithmetic: ``python check.py claim.json data``.

This file needs Python 3.11 and nothing else; copy it where you like. FORMAT.md describes the claim. The data
are a CSV table (the label last, or where the claim says), an svmlight file, or a .npy matrix with the label
last. Exit status: 0 if every step holds, 1 if one does not or a file is broken.

THE PROGRAM. Samples x_i with labels y_i = -1 or +1; K faces w_k; scores f_ik = w_k'phi(x_i) + b_k, where b_k
is free (intercept) or 0, as where x_i ends with a 1 (lifted). Families of rows have a side s (-1, +1 or the
label), a kink c, a cap C for each sample, and say at which faces a sample answers:

    minimise  size(W) + losses C phi(t),  t_k = c - s f_ik, or c - s (f_ik - f_il) where l is the face less

phi(t) is max(0, t), or, logistic, ln(1 + e^t), or, linear, t. A sample at several faces pays the sum, or for
the worst t_k, or softly for (1/g) ln sum_k exp(g t_k), or at "one" of all the least. An infinite cap is a
row to keep: t_k <= 0.

A BOUND BY MULTIPLIERS m_k >= 0. Let m be m_k where the sum is paid, else sum_k m_k; H(u) = -sum_k u_k ln
u_k.

    C max(0, t) >= m t, if m <= C      C ln(1 + e^t) >= m t + C H(m/C, 1 - m/C)      C t = m t, if m = C
    m max_k t_k >= sum_k m_k t_k       (m/g) ln sum_k exp(g t_k) >= sum_k m_k t_k + (m/g) H(m_1/m, m_2/m, ...)

are tangents of convex functions. Let beta_ik be the sum of s m_k over the rows of sample i at face k, less
that of all s m where k is the face less; v_k = sum_i beta_ik phi(x_i); where b_k is free, sum_i beta_ik = 0.
Adding up, the objective is at least the sum of c m and of H, less a price >= sum_k v_k'w_k - size(W),
whatever W is.

THE SIZE is a sum over faces and weights of h w^2 + l |w| + (n if w is not 0), where low <= w <= high. Its
price is the largest v w less that. For size "worst" h max_k |w_k|^2 >= sum_k t_k h |w_k|^2, with shares t_k
>= 0 of sum 1. With a kernel w = sum_j a_j phi(x_j), so f = K a + b, |w|^2 = a'Ka and |v|^2 = beta'K beta,
for K semidefinite, and the price of h |w|^2 is |v|^2 / (4h). In an expansion phi_j(x_i) = K_ij y_j. A group
of features may pay for its length, r |W_l| >= q'W_l for any q of |q| <= r, which v then loses; and a share D
of the variance of scores,

    D/2 sum_i p_i (f_i - mean f)^2 / P >= D sum_i z_i f_i - D/2 sum_i P z_i^2 / p_i,   where sum_i z_i = 0,

which takes D z from beta, at z_i = p_i (f_i - mean f) / P of the point, with P = sum p.

A ray has v = 0, sum c m > 0 and no caps: adding up s f >= c says 0 > 0, so no point keeps these rows.

A TREE goes through cases. A node says that a weight is 0, or that it pays n; or, of a sample that answers at
one face, at which: all faces are alike, so of those without such a sample the first stands for all. A leaf
has multipliers for what is decided, and leaves out the other samples at one face, which pay 0 or more.

ARITHMETIC. A double is a whole number times a power of two, so sums and products are exact. exp and ln alone
are computed, with 192 bits, and taken to be within UNIT = 2^-128.
"""

import csv
import hashlib
import json
import re
import struct
import sys
from collections.abc import Callable, Iterator
from fractions import Fraction
from itertools import chain
from math import gcd, inf, isfinite, isqrt, lcm
from operator import mul, sub, truediv
from typing import Any

Vector = list[Fraction]
Json = Any  # what a claim holds
Cells = dict[int, float]  # a sample: what is not 0, by column
Held = dict[str, list[Vector]]  # multipliers, by family and face

BITS, WORK, MOST_BITS = 128, 192, 20_000  # of results, on the way, and of numbers and denominators in a claim
UNIT, ZERO = Fraction(1, 1 << BITS), Fraction(0)
HEX = re.compile(r"(-?)0x([0-9a-f]{1,4000})p([+-]?\d{1,5})")
PRICES = {"l1", "count", "low", "high", "groups", "group", "whole"}  # of single weights
RATIO = re.compile(r"-?\d{1,4000}(/0*[1-9]\d{0,3999})?")


class Refused(Exception):
    """The claim is not proven; the text says why."""


def demand(holds: Json, why: str) -> None:
    if not holds:
        raise Refused(why)


def need(holder: Json, key: str, kind: type) -> Any:
    demand(type(holder) is dict and type(holder.get(key)) is kind, f"{key} is missing or of a wrong kind")
    return holder[key]


def plain(text: Json) -> str | float:
    """A label, or a cell: numbers that are written in two ways are one."""
    text = str(text).strip()
    return float(text) if re.fullmatch(r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d{1,3})?", text) else text


def number(given: Json, ends: bool = False) -> Fraction:
    """A whole number, "p/q", or "0x1fp-3", which is 31/8; of ends also one of the infinities."""
    if ends and given in ("inf", "-inf"):
        return float(given)  # type: ignore[return-value]
    if type(given) is int and given.bit_length() < 64:
        return Fraction(given)
    shown = f"{str(given)[:40]!r} is no number: whole, 'p/q' or hexadecimal"
    demand(type(given) is str, shown)
    if RATIO.fullmatch(given):
        return Fraction(given)
    found = HEX.fullmatch(given)
    demand(found and abs(int(found[3])) <= MOST_BITS, shown)
    top, power = int(found[1] + found[2], 16), int(found[3])  # type: ignore[index]
    return Fraction(top << max(power, 0), 1 << max(-power, 0))


def vector(given: Json, size: int, what: str, ends: bool = False, old: Json = None) -> Any:
    """A list; or {"at": places, "is": numbers}, elsewhere what is old or zeros; or one number for all."""
    if not isinstance(given, dict):
        demand(type(given) is not list or len(given) == size, f"{what} has not {size} numbers")
        return [number(v, ends) for v in given] if type(given) is list else [number(given, ends)] * size
    at, values, found = need(given, "at", list), need(given, "is", list), list(old or [ZERO] * size)
    demand(all(type(k) is int and 0 <= k < size for k in at), f"{what}: a place is out of range")
    demand(len(set(at)) == len(at) == len(values), f"{what}: places and numbers do not match")
    for k, value in zip(at, values):
        found[k] = number(value, ends)
    return found


def whole(values: Vector) -> tuple[list[int], int]:
    """Whole numbers, and what they are over."""
    den = 1
    for value in values:
        den = lcm(den, value.denominator) if den % value.denominator else den
        demand(den.bit_length() <= MOST_BITS, "the denominators have no small common multiple")
    return [v.numerator * (den // v.denominator) for v in values], den


def dot(a: Vector, b: Vector) -> Fraction:
    (p, q), (r, t) = whole(a), whole(b)
    return Fraction(sum(map(mul, p, r)), q * t)


LN2 = 2 * sum((1 << WORK) // (j * 3**j) for j in range(1, 140, 2))  # 2 artanh(1/3), times 2^192


def log(x: Fraction) -> Fraction:
    """The logarithm, within UNIT: x = 2^k m with 1 <= m < 2, and ln m = 2 artanh z, z = (m-1)/(m+1) <= 1/3.

    What is left of the series after 70 terms is below 2^-220, and each step loses less than 2^-191.
    """
    k = x.numerator.bit_length() - x.denominator.bit_length()
    k -= x < Fraction(2) ** k
    one, m = 1 << WORK, (x.numerator << WORK + max(-k, 0)) // (x.denominator << max(k, 0))
    power = z = (m - one << WORK) // (m + one)
    total = 0
    for j in range(1, 140, 2):
        total += power // j
        power = (power * z >> WORK) * z >> WORK
    return Fraction(2 * total + k * LN2, one)


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


def from_npy(path: str) -> Iterator[tuple[Cells, Any]]:
    """Samples and labels of a matrix in numpy's format."""
    with open(path, "rb") as file:
        content = file.read()
    head = rb"'descr': '[<|](f8|f4|i8|i4|u1)', 'fortran_order': False, 'shape': \((\d+), (\d+)\)"
    found = re.search(head, content[:1000]) or [b""] * 4
    demand(found[1], "a .npy file must hold a matrix of numbers by rows, little-endian")
    n, m, kind = int(found[2]), int(found[3]), "dfqiB"["f8f4i8i4u1".index(found[1].decode()) // 2]
    size = struct.calcsize(f"<{m}{kind}")
    for *cells, label in struct.iter_unpack(f"<{m}{kind}", content[len(content) - n * size :]):
        yield dict(enumerate(cells)), label


def from_text(path: str, target: str | int) -> Iterator[tuple[Cells, Any]]:
    """Samples and labels of an svmlight or a CSV file."""
    with open(path, encoding="utf-8-sig", newline="") as file:
        lines = [line for line in file.read().splitlines() if line.partition("#")[0].strip()]
    split = (line.partition("#")[0].split() for line in lines)
    first = next((words[1:] for words in split if len(words) > 1), [""])
    if all(":" in word for word in first):  # label column:value ...
        for line in lines:
            label, *words = line.partition("#")[0].split()
            row = {int(j) - 1: float(x) for j, _, x in (word.partition(":") for word in words)}
            demand(len(row) == len(words), "a column stands twice")
            yield row, label
        return
    table = csv.reader(lines, delimiter=max(",;\t ", key=lines[0].count))
    names = next(table)
    place = names.index(target) if isinstance(target, str) else target % len(names)
    numbers = all(type(plain(cell)) is float for j, cell in enumerate(names) if j != place)
    for texts in chain([names] if numbers else [], table):
        label = texts.pop(place)
        yield dict(enumerate(map(float, texts))), label


def prepared(cells: Cells, m: int, steps: list[tuple[Any, list[float]]]) -> Cells:
    """A sample as the machine saw it: (x - shift) / divide * factor in doubles, each rounded to nearest."""
    demand(all(0 <= j < m for j in cells), f"there are more than {m} features")
    values: Any = cells.values()
    for step, by in steps:
        demand(len(cells) == m or step is not sub, f"there are not {m} features")
        values = map(step, values, map(by.__getitem__, cells))
    found = dict(zip(cells, map(float, values)))
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
        kind, (factors, under), found = need(kernel, "kernel", str), whole(c), [0] * self.n
        demand(kind in ("linear", "poly", "rbf"), "the kernel is linear, poly or rbf")
        if kind == "linear":
            return self.times(self.pull(c)), ZERO
        gamma, norms = number(kernel.get("gamma")), [sum(map(mul, x, x)) for _, x in self.rows]
        top, low = gamma.numerator, gamma.denominator * self.den**2
        demand(top > 0 and (top * low).bit_length() < 10_000, "gamma is not positive, or no double")
        den, plus, degree = 1 << BITS, 0, 1
        if kind == "poly":
            coef0, degree = number(kernel.get("coef0")), need(kernel, "degree", int)
            demand(1 <= degree <= 20, "the degree is from 1 to 20")
            plus, top, low = coef0.numerator * low, top * coef0.denominator, low * coef0.denominator
            den = low**degree
        for j in (j for j, factor in enumerate(factors) if factor):
            column = self.columns.get(j)
            if not column:
                row = dict(zip(*self.rows[j]))
                inner = self.times([Fraction(row.get(k, 0) * self.den) for k in range(self.m)])  # times den^2
                if kind == "rbf":
                    column = [exp_minus(top * int(norms[j] + b - 2 * a), low) for a, b in zip(inner, norms)]
                else:
                    column = [int(top * a + plus) ** degree for a in inner]
                self.columns |= {j: column} if self.n <= 1000 else {}  # the leaves of a tree want it again
            found = [f + factors[j] * k for f, k in zip(found, column)]
        off = UNIT * sum(map(abs, c)) if kind == "rbf" else ZERO
        return [Fraction(v, under * den) for v in found], off


def each(given: Json, n: int, read: Callable[[Json], Any]) -> list[Any]:
    """What is told of each sample: a list, or one for all."""
    told = given if type(given) is list else [given] * n
    demand(len(told) == n, "a family's caps and faces must be told for every sample")
    known = {shown: read(v) for shown, v in {repr(v): v for v in told}.items()}
    return [known[repr(v)] for v in told]


class Rows:
    """A family of rows: side, kink, caps (None for infinite), and the faces at which a sample answers."""

    def __init__(self, told: Json, y: list[int], faces: int):
        def places(a: Json) -> list[int]:
            known: Json = {"all": list(range(faces)), "none": [], "one": []}
            found = known.get(a, [a]) if type(a) is not list else a
            there = all(type(k) is int and 0 <= k < faces for k in found) and len(set(found)) == len(found)
            demand(there, f"{self.name}: there is no such face")
            return found

        n, side = len(y), told.get("side")
        self.loss, self.pays = told.get("loss", "hinge"), told.get("pays", "sum")
        self.name, self.kink, self.sharp = need(told, "name", str), number(told.get("kink")), ZERO
        demand(side in ("label", 1, -1), "a side is 1, -1 or 'label'")
        self.side = y if side == "label" else [side] * n
        self.cap = each(told.get("cap"), n, lambda c: None if c == "inf" else number(c))
        self.at = each(told.get("at", "all"), n, places)
        self.one = each(told.get("at", "all"), n, lambda a: a == "one")
        self.less = each(told.get("less", "none"), n, lambda a: places(a)[:1])
        demand(min((c for c in self.cap if c is not None), default=0) >= 0, "a cap is negative")
        known = self.loss in PHI and self.pays in ("sum", "worst", "soft")
        demand(known, f"{self.name}: there is no such loss")
        simple = self.loss == "hinge" and self.pays != "soft"
        demand(simple or None not in self.cap, "an infinite cap is of a hinge that is not soft")
        positive = self.loss != "linear" and None not in self.cap
        demand(positive or not any(self.one), "at one of the faces a sample pays 0 or more")
        if self.pays == "soft":
            self.sharp = number(told.get("sharp"))
            demand(self.sharp > 0, "the sharpness is not positive")

    def value(self, f: list[Vector], off: Fraction) -> Fraction:
        """The losses at scores that are each within off: their sum, or more."""
        total, phi = ZERO, PHI[self.loss]
        for i, (s, cap, at, less) in enumerate(zip(self.side, self.cap, self.at, self.less)):
            start = self.kink + off + sum(s * f[k][i] + off for k in less)
            t = [start - s * f[k][i] for k in (range(len(f)) if self.one[i] else at)]
            if cap is None:
                demand(max(t, default=0) <= 0, f"the point breaks the row {self.name} of sample {i}")
            elif cap and t:
                if self.one[i]:
                    t = [min(t)]
                elif self.pays != "sum":
                    t = [max(t) if self.pays == "worst" else soft_max(t, self.sharp)]
                total += cap * sum(map(phi, t))
        return total

    def gain(self, m: list[Vector]) -> Fraction:
        """What multipliers (by face) earn, if they keep their signs and caps."""
        total, linear, logistic = ZERO, self.loss == "linear", self.loss == "logistic"
        for i, (cap, at, own) in enumerate(zip(self.cap, self.at, zip(*m))):
            if any(own) or (linear and at):
                demand(min(own) >= 0, f"{self.name}: a multiplier of sample {i} is negative")
                there = all(k in at for k, v in enumerate(own) if v)
                demand(there, f"{self.name}: sample {i} has no row where it has a multiplier")
                every = sum(own)
                parts = [own[k] for k in at] if self.pays == "sum" else [every]
                kept = cap is None or (max(parts) <= cap and (min(parts) == cap or not linear))
                demand(kept, f"{self.name}: sample {i} is above its cap, or below it where it may not be")
                total += self.kink * every
                if logistic and cap:
                    total += sum(cap * entropy([p / cap, 1 - p / cap]) for p in parts)
                if self.pays == "soft" and every:
                    total += every / self.sharp * entropy([v / every for v in own])
        return total

    def pull(self, m: list[Vector], betas: list[Vector]) -> None:
        """Add to the betas what multipliers (by face) are, with their sides."""
        for beta, part in zip(betas, m):
            beta[:] = [b + s * v if v else b for b, s, v in zip(beta, self.side, part)]
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
    found += off * max(abs(low), abs(high)) if off else 0
    return max(found, ZERO) if count and low <= 0 <= high else found


class Program:
    """Features, size and rows: the value of a point, and the bound of multipliers."""

    def __init__(self, told: Json, rows: list[Cells], m: int, y: list[int]):
        self.features, self.size, self.y = need(told, "features", dict), need(told, "size", dict), y
        self.kind, self.shape = need(self.features, "kind", str), need(self.size, "kind", str)
        self.faces, self.intercept = need(told, "faces", int), need(told, "intercept", bool)
        by_sample, weighed = self.kind in ("kernel", "expansion"), self.kind != "kernel"
        demand(by_sample or self.kind in ("plain", "lifted"), "there are no such features")
        fields = {"kind", "factor", "variance"} | (PRICES if weighed else set())
        known = self.shape in ("square", "worst") and set(self.size) <= fields
        demand(known, "there is no such size")
        demand(1 <= self.faces <= (1 if by_sample else 10_000), "the number of faces is out of range")
        self.samples = Samples(rows, m, self.kind == "lifted")
        self.width = self.samples.n if by_sample else self.samples.m
        sizes = self.faces * max(self.width, self.samples.n), len(need(told, "rows", list))
        demand(sizes[0] <= 30_000_000 and sizes[1] <= 100, "the program is too large")
        self.constant = number(told.get("constant", 0))
        self.rows = [Rows(row, y, self.faces) for row in told["rows"]]
        demand(len({row.name for row in self.rows}) == len(self.rows), "two families have one name")
        self.leaves, self.choice = 0, [row for row in self.rows if any(row.one)]
        self.is_square = set(self.size) <= {"kind", "factor"} and self.shape == "square"
        if weighed:
            columns = [self.by_face(name) for name in ("factor", "l1", "count", "low", "high")]
            self.prices = [list(zip(*face)) for face in zip(*columns)]
            kept = all(min(h, l1, n) >= 0 and a <= z for face in self.prices for h, l1, n, a, z in face)
            demand(kept, "a price is negative, or a weight has no room")
            self.group, self.most = number(self.size.get("group", 0)), self.size.get("whole")
            demand(self.group >= 0, "a price is negative")
            self.groups = vector(self.size.get("groups", 0), self.width, "groups")
        else:
            self.factor, self.groups, self.most = number(self.size.get("factor")), [], None
            psd = self.features.get("kernel") != "poly" or number(self.features.get("coef0")) >= 0
            demand(self.factor > 0 and psd, "the factor is not positive, or the kernel not semidefinite")
        self.grouped, self.share = any(self.groups), ZERO
        alike = weighed and all(face == self.prices[0] for face in self.prices)
        alike &= not any(any(r.less) or any(0 < len(a) < self.faces for a in r.at) for r in self.rows)
        demand(not self.choice or (alike and len(self.choice) == 1), "the faces to choose from are not alike")
        if "variance" in self.size:
            told = need(self.size, "variance", dict)
            self.share, n = number(told.get("share")), self.samples.n
            self.weights = vector(told.get("weights"), n, "weights")
            demand(self.share > 0 and min(self.weights) > 0, "the variance has a wrong share or weight")

    def by_face(self, name: str) -> list[Vector]:
        """A vector of the size for each face; they may be one."""
        ends = {"low": "-inf", "high": "inf"}
        told = self.size.get(name, ends.get(name, 0))
        if type(told) is dict and "faces" in told:
            demand(len(need(told, "faces", list)) == self.faces, f"{name} is not told for each face")
            return [vector(part, self.width, name, name in ends) for part in told["faces"]]
        return [vector(told, self.width, name, name in ends)] * self.faces

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
            kept = max(map(abs, tops), default=0) <= need(self.size, "whole", int) * gcd(*tops)
            demand(kept, "the weights are no such whole numbers times a scale")
        squares = sum((h * v * v for v, (h, *_) in zip(w, self.prices[k]) if v), ZERO)
        return squares, sum((l1 * abs(v) + n for v, (_, l1, n, _, _) in zip(w, self.prices[k]) if v), ZERO)

    def value(self, point: Json) -> tuple[Fraction, list[Vector]]:
        """The objective at the point, or more, if it keeps its constraints; and the slopes of variances."""
        faces = [vector(w, self.width, "w") for w in need(point, "w", list)]
        demand(len(faces) == self.faces, "the point has another number of faces")
        b = vector(need(point, "b", list), self.faces, "b") if self.intercept else [ZERO] * self.faces
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
        for name, parts in need({"rows": {}, **told}, "rows", dict).items():
            demand(type(parts) is list and len(parts) == self.faces, f"{name} is not told for each face")
            old: list[Any] = found.get(name) or [None] * self.faces
            found[name] = [vector(v, self.samples.n, name, False, o) for v, o in zip(parts, old)]
        demand(set(found) == {rows.name for rows in self.rows}, "there must be multipliers of every family")
        return found

    def least(self, told: Json, slopes: list[Vector], above: Held | None = None, used: int = 0) -> Fraction:
        """What multipliers prove, or all leaves of a tree; samples decided are at the faces before used."""
        if "ways" not in told:
            self.leaves += 1
            gain, price = self.bound(told, slopes, above)
            return gain - price
        ways, known, found = need(told, "ways", list), self.known(told, above or {}), []
        if self.choice:
            i, rows = need(told, "sample", int), self.choice[0]
            may = 0 <= i < self.samples.n and rows.one[i] and not rows.at[i]
            demand(may and len(ways) == min(used + 1, self.faces), f"sample {i} has other ways, or none")
            for k, way in enumerate(ways):
                rows.at[i] = [k]
                found.append(self.least(way, slopes, known, max(used, k + 1)))
            rows.at[i] = []
            return min(found)
        j, constant = need(told, "weight", int), self.constant
        demand(self.kind != "kernel" and 0 <= j < self.width and len(ways) == 2, f"weight {j} has no 2 ways")
        h, l1, n, low, high = kept = self.prices[0][j]
        either = ((h, l1, n, ZERO, ZERO), constant), ((h, l1, ZERO, low, high), constant + n)
        for way, (self.prices[0][j], self.constant) in zip(ways, either):
            found.append(self.least(way, slopes, known))
        self.prices[0][j], self.constant = kept, constant
        return min(found)

    def bound(self, told: Json, slopes: list[Vector], above: Held | None = None) -> tuple[Fraction, Fraction]:
        """What multipliers earn and pay, if they keep signs, caps and balance; slopes are of the variance."""
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
        if self.shape == "worst":
            shares = vector(told.get("shares"), self.faces, "shares")
            demand(sum(shares) == 1 and min(shares) >= 0, "the shares do not divide 1")
        held: list[Vector] = [[]] * self.faces
        if self.grouped:
            held = [vector(q, self.width, "held") for q in need(told, "held", list)]
            lengths = self.lengths(held)
            kept = len(held) == self.faces and all(s <= (g and self.group) ** 2 for g, s in lengths.items())
            demand(kept, "a group holds more than its price")
        each_face = enumerate(zip(betas, shares, held))
        return gain, paid + sum((self.price(k, *parts) for k, parts in each_face), ZERO)


def load_samples(told: Json, path: str) -> tuple[list[Cells], int, list[int]]:
    """The samples that a claim is about, as the machine saw them, and their labels -1 and +1."""
    m, runs, labels = need(told, "features", int), need(told, "rows", list), need(told, "labels", dict)
    ends = [end for run in runs for end in run if type(end) is int]
    demand(len(ends) == 2 * len(runs) > 0 and ends == sorted(ends), "the rows are not in order")
    demand(ends[0] >= 0 and m <= 10_000_000, "there are no such samples")
    signs = {plain(labels.get("-1")): -1, plain(labels.get("+1")): 1}
    kinds = {"shift": sub, "divide": truediv, "factor": mul, "times": mul}
    given = [(name, vector(told[name], m, name)) for name in kinds if name in told]
    steps = [(kinds[name], list(map(float, by))) for name, by in given]
    whole_file = from_npy(path) if path.endswith(".npy") else from_text(path, told.get("target", -1))
    wanted = (k for a, z in runs for k in range(a, z))
    rows, y, at = [], [], next(wanted, None)
    for i, (cells, label) in enumerate(whole_file):
        if i == at:
            rows.append(prepared(cells, m, steps))
            y.append(signs.get(plain(label), 0))
            at = next(wanted, None)
    demand(at is None, "there are no such samples")
    demand(0 not in y, "the labels are not those of the claim")
    return rows, m, y


def check(claim: Json, path: str, say: Callable[[str], None]) -> None:
    """Prove a claim step by step, or raise Refused."""
    told, stated, kind = need(claim, "data", dict), need(claim, "claim", dict), need(claim, "kind", str)
    rows, m, y = load_samples(told, path)
    say(f"the data are read: {len(y)} samples of {m} features, {y.count(1)} of them +1")
    demand(digest(rows, m, y) == told.get("sha256"), "the samples are not those of the claim")
    say("they have the digest of the claim")
    program, multipliers = Program(need(claim, "program", dict), rows, m, y), need(claim, "multipliers", dict)
    if kind == "infeasible":
        gain, price = program.bound(multipliers, [])
        hard = all(cap is None for rows in program.rows for cap in rows.cap)
        proven = gain > program.constant and not price
        demand(hard and program.is_square and proven, "the multipliers are no ray")
        say("the multipliers are a ray: no point keeps the rows without slack")
        return
    demand(kind == "bounds", "a claim is of bounds or infeasible")
    high, low, gap = (number(stated.get(name)) for name in ("value", "bound", "gap"))
    value, slopes = program.value(need(claim, "point", dict))
    demand(value <= high, f"the value is {float(value)!r}, above the {float(high)!r} that is claimed")
    say(f"the point keeps its constraints, and its value is at most {float(high)!r}, as claimed")
    bound = program.least(multipliers, slopes)
    demand(bound >= low, f"the bound is {float(bound)!r}, not {float(low)!r} as claimed")
    say(f"the multipliers keep signs, caps and balance, and prove {float(low)!r}, as claimed")
    if program.leaves > 1:
        say(f"so they do in each of {program.leaves} cases, and there is no other")
    demand(high - low <= gap, "the gap is larger than claimed")
    say(f"no point is better by more than {float(gap):.3g}, as claimed")


def main(arguments: list[str]) -> int:
    """The exit status."""
    steps: list[str] = []

    def say(text: str) -> None:
        steps.append(text)
        print(f"{len(steps):3}. {text}: yes")

    try:
        demand(len(arguments) == 2, "usage: python check.py claim.json data")
        with open(arguments[0], encoding="utf-8") as file:  # of two fields of one name there is neither
            told = json.load(file, object_pairs_hook=lambda p: dict(p) if len(dict(p)) == len(p) else None)
        is_ours = need(told, "format", str) == "polyopt claim" and need(told, "version", int) == 1
        demand(is_ours, "this is no claim, or of another version")
        demand(0 < len(need(told, "claims", list)) <= 5000, "a file has from 1 to 5000 claims")
        for claim in told["claims"]:
            say(f"a claim on {need(claim, 'title', str)[:60]!r} is read")
            check(claim, arguments[1], say)
    except Refused as why:
        print(f"{len(steps) + 1:3}. {why}: NO")
        return 1
    except Exception as error:  # whatever a broken file leads to, it is no proof
        print(f"{len(steps) + 1:3}. a file is broken ({type(error).__name__}: {str(error)[:80]!r}): NO")
        return 1
    print("Every step holds.")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
