"""Check a claim about a large-margin classifier in exact arithmetic: ``python check.py claim.json data``.

This file needs Python 3.11 and nothing else; copy it where you like. FORMAT.md describes the claim. The data
are a CSV table (the label last, or where the claim says), an svmlight file, or a .npy matrix with the label
last. Exit status: 0 if every step holds, 1 if one does not or a file is broken.

THE PROGRAM. Samples x_i with labels y_i = -1 or +1; K faces w_k; scores f_ik = w_k'phi(x_i) + b_k, where b_k
is free (intercept) or 0, as where x_i ends with a 1 (lifted). Families of rows have a side s (-1, +1 or the
label), a kink c, a cap C for each sample, and say at which faces a sample answers:

    minimise  size(W) + losses, of a row at a face  C max(0, c - s f)  or, logistic,  C ln(1 + exp(-s f))

A sample at several faces pays the sum, or the worst. An infinite cap is a row to keep: s f >= c.

A BOUND BY MULTIPLIERS. For 0 <= m <= C (for "worst": the sum over the faces is at most C), any W and any b,

    C max(0, c - s f) >= m (c - s f)        C ln(1 + exp(-s f)) >= C H(m/C) - m s f

with H(u) = -u ln u - (1-u) ln(1-u): a tangent of a convex function. Let beta_ik be the sum of s m over the
rows of sample i at face k, v_k = sum_i beta_ik phi(x_i); where b_k is free, sum_i beta_ik = 0. Adding up, the
objective is at least sum of c m or C H(m/C), less a price >= sum_k v_k'w_k - size(W), whatever W is.

    SIZE                                                  PRICE
    square    h sum |w_k|^2                               sum |v_k|^2 / (4h)
    worst     h max_k |w_k|^2                             sum |v_k|^2 / (4h t_k), shares t_k >= 0 of sum 1
    variance  w'Aw/2 = (1-D)/2 |w|^2 + D/2 Var(w'x)       (u'Au + 2u'r + |r|^2/(1-D)) / 2,  any u,  r = v - Au
    box       cost'w, where low <= w <= high              sum_j max over both ends of (v_j - cost_j) end_j

(A >= (1-D) I, and v'A^-1 v = u'Au + 2u'r + r'A^-1 r.) With a kernel w = sum_j a_j phi(x_j), so f = K a + b,
|w|^2 = a'Ka and |v|^2 = beta'K beta, for K semidefinite. In an expansion phi_j(x_i) = K_ij y_j. A ray has
v = 0, sum c m > 0 and no caps: adding up s f >= c says 0 > 0, so no point keeps these rows.

ARITHMETIC. A double is a whole number times a power of two, so sums and products are exact. exp and ln alone
are computed, with 192 bits, and taken to be within UNIT = 2^-128.
"""

import csv
import hashlib
import json
import re
import struct
import sys
from collections.abc import Callable
from fractions import Fraction
from math import isfinite, lcm
from operator import mul
from typing import Any

Vector = list[Fraction]
Json = Any  # what a claim holds
Cells = dict[int, float]  # a sample: what is not 0, by column

BITS, WORK, MOST_BITS = 128, 192, 20_000  # of results, on the way, and of numbers and denominators in a claim
UNIT, ZERO = Fraction(1, 1 << BITS), Fraction(0)
HEX = re.compile(r"(-?)0x([0-9a-f]{1,4000})p([+-]?\d{1,5})")
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


def number(given: Json) -> Fraction:
    """A whole number, "p/q", or "0x1fp-3", which is 31/8."""
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


def vector(given: Json, size: int, what: str) -> Vector:
    """A list; or {"at": places, "is": numbers}, with zeros elsewhere; or one number for all."""
    if not isinstance(given, dict):
        demand(type(given) is not list or len(given) == size, f"{what} has not {size} numbers")
        return [number(v) for v in given] if type(given) is list else [number(given)] * size
    at, values, found = need(given, "at", list), need(given, "is", list), [ZERO] * size
    demand(all(type(k) is int and 0 <= k < size for k in at), f"{what}: a place is out of range")
    demand(len(set(at)) == len(at) == len(values), f"{what}: places and numbers do not match")
    for k, value in zip(at, values):
        found[k] = number(value)
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


def softplus(t: Fraction) -> Fraction:
    """A number from ln(1 + e^t) to 4 UNIT above it."""
    z = UNIT * exp_minus(abs(t.numerator), t.denominator)
    return max(t, ZERO) + log(1 + z) + 2 * UNIT


def entropy(u: Fraction) -> Fraction:
    """A number from H(u) to 2 UNIT below it."""
    return -sum((p * (log(p) + UNIT) for p in (u, 1 - u) if p > 0), ZERO)


def load_claims(path: str) -> list[Any]:
    """The claims in a file."""
    with open(path, encoding="utf-8") as file:  # of two fields of one name there is neither
        found = json.load(file, object_pairs_hook=lambda p: dict(p) if len(dict(p)) == len(p) else None)
    is_ours = need(found, "format", str) == "polyopt claim" and need(found, "version", int) == 1
    demand(is_ours, "this is no claim, or of another version")
    demand(0 < len(need(found, "claims", list)) <= 5000, "a file has from 1 to 5000 claims")
    return list(found["claims"])


def load_npy(path: str) -> tuple[list[Cells], list[Any]]:
    """Samples and labels of a matrix in numpy's format."""
    with open(path, "rb") as file:
        content = file.read()
    head = rb"'descr': '[<|](f8|f4|i8|i4|u1)', 'fortran_order': False, 'shape': \((\d+), (\d+)\)"
    found = re.search(head, content[:1000]) or [b""] * 4
    demand(found[1], "a .npy file must hold a matrix of numbers by rows, little-endian")
    n, m, kind = int(found[2]), int(found[3]), "dfqiB"["f8f4i8i4u1".index(found[1].decode()) // 2]
    cells = struct.unpack(f"<{n * m}{kind}", content[len(content) - n * m * struct.calcsize("<" + kind) :])
    rows = [cells[i * m : (i + 1) * m] for i in range(n)]
    return [dict(enumerate(row[:-1])) for row in rows], [row[-1] for row in rows]


def load_text(path: str, target: str | int) -> tuple[list[Cells], list[Any]]:
    """Samples and labels of an svmlight or a CSV file."""
    with open(path, encoding="utf-8-sig", newline="") as file:
        lines = [line for line in file.read().splitlines() if line.partition("#")[0].strip()]
    split = [line.partition("#")[0].split() for line in lines]
    cells = [[word.partition(":") for word in words[1:]] for words in split]
    if any(cells) and all(colon for row in cells for _, colon, _ in row):  # label column:value ...
        rows = [{int(j) - 1: float(x) for j, _, x in row} for row in cells]
        demand(all(len(row) == len(given) for row, given in zip(rows, cells)), "a column stands twice")
        return rows, [words[0] for words in split]
    names, *_ = texts = list(csv.reader(lines, delimiter=max(",;\t ", key=lines[0].count)))
    place = names.index(target) if isinstance(target, str) else target % len(names)
    first = 0 if all(type(plain(cell)) is float for j, cell in enumerate(names) if j != place) else 1
    labels = [row.pop(place) for row in texts[first:]]
    return [dict(enumerate(map(float, row))) for row in texts[first:]], labels


def prepared(cells: Cells, m: int, steps: dict[str, list[float]]) -> Cells:
    """A sample as the machine saw it: (x - shift) / divide * factor in doubles, each rounded to nearest."""
    demand(all(0 <= j < m for j in cells) and (len(cells) == m or "shift" not in steps), f"not {m} features")
    for name, by in steps.items():
        for j, x in cells.items():
            cells[j] = x - by[j] if name == "shift" else x / by[j] if name == "divide" else x * by[j]
    demand(all(map(isfinite, cells.values())), "the data hold a number that is not finite")
    return {j: float(cells[j]) for j in sorted(cells) if cells[j]}


def digest(rows: list[Cells], m: int, y: list[int]) -> str:
    """SHA-256 of n, m and, for each sample, y, the number of cells that are not 0, their columns, doubles."""
    made = hashlib.sha256(struct.pack("<QQ", len(rows), m))
    for row, label in zip(rows, y):
        made.update(struct.pack(f"<bQ{len(row)}Q{len(row)}d", label, len(row), *row.keys(), *row.values()))
    return made.hexdigest()


class Samples:
    """Samples as whole numbers over one denominator; lifted, each ends with a 1."""

    def __init__(self, rows: list[Cells], m: int, lifted: bool):
        ratios = [[x.as_integer_ratio() for x in row.values()] for row in rows]
        self.den = den = lcm(*{q for row in ratios for _, q in row})
        self.n, self.m, (place, one) = len(rows), m + lifted, ([m], [den]) if lifted else ([], [])
        tops = [[p * (den // q) for p, q in row] for row in ratios]
        self.rows = [([*row, *place], top + one) for row, top in zip(rows, tops)]

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
            row = dict(zip(*self.rows[j]))
            inner = self.times([Fraction(row.get(k, 0) * self.den) for k in range(self.m)])  # times den^2
            if kind == "rbf":
                column = [exp_minus(top * int(norms[j] + b - 2 * a), low) for a, b in zip(inner, norms)]
            else:
                column = [int(top * a + plus) ** degree for a in inner]
            found = [f + factors[j] * k for f, k in zip(found, column)]
        off = UNIT * sum(map(abs, c)) if kind == "rbf" else ZERO
        return [Fraction(v, under * den) for v in found], off


class Rows:
    """A family of rows: side, kink, caps (None for infinite), and the faces at which a sample answers."""

    def __init__(self, told: Json, y: list[int], faces: int):
        n, side, cap, at = len(y), told.get("side"), told.get("cap"), told.get("at", "all")
        demand(side in ("label", 1, -1), "a side is 1, -1 or 'label'")
        self.name, self.kink = need(told, "name", str), number(told.get("kink"))
        self.side = y if side == "label" else [side] * n
        self.logistic, self.worst = told.get("loss") == "logistic", told.get("pays") == "worst"
        cap, at = (given if type(given) is list else [given] * n for given in (cap, at))
        demand(len(cap) == len(at) == n, f"{self.name}: caps and faces must be told for every sample")
        known = {c: None if c == "inf" else number(c) for c in set(cap)}
        self.cap = [known[c] for c in cap]
        demand(min((c for c in known.values() if c is not None), default=0) >= 0, "a cap is negative")
        simple = "inf" not in known and self.kink == 0 and not self.worst
        demand(simple or not self.logistic, "a logistic loss has caps, no kink, and is paid at every face")
        every = {"all": range(faces), "none": range(0)} | {k: range(k, k + 1) for k in range(faces)}
        demand(all(type(a) in (int, str) and a in every for a in at), f"{self.name}: there is no such face")
        self.at = [every[a] for a in at]

    def value(self, f: list[Vector], off: Fraction) -> Fraction:
        """The losses at scores that are each within off: their sum, or more."""
        total = ZERO
        for i, (s, cap, at) in enumerate(zip(self.side, self.cap, self.at)):
            short = [self.kink - s * f[k][i] + off for k in at]
            if cap is None:
                demand(max(short, default=0) <= 0, f"the point breaks the row {self.name} of sample {i}")
            elif cap and at:
                paid = [softplus(t) if self.logistic else max(ZERO, t) for t in short]
                total += cap * (max(paid) if self.worst else sum(paid))
        return total

    def gain(self, m: list[Vector]) -> Fraction:
        """What multipliers (by face) earn, if they keep their signs and caps."""
        total = ZERO
        for i, (cap, at, own) in enumerate(zip(self.cap, self.at, zip(*m))):
            if any(own):
                demand(min(own) >= 0, f"{self.name}: a multiplier of sample {i} is negative")
                there = all(k in at for k, v in enumerate(own) if v)
                demand(there, f"{self.name}: sample {i} has no row where it has a multiplier")
                most = sum(own) if self.worst else max(own)
                demand(cap is None or most <= cap, f"{self.name}: sample {i} is above its cap")
                total += sum(cap * entropy(v / cap) if self.logistic and cap else self.kink * v for v in own)
        return total


class Program:
    """Features, size and rows: the value of a point, and the bound of multipliers."""

    def __init__(self, told: Json, rows: list[Cells], m: int, y: list[int]):
        self.features, self.size, self.y = need(told, "features", dict), need(told, "size", dict), y
        self.kind, self.shape = need(self.features, "kind", str), need(self.size, "kind", str)
        self.faces, self.intercept = need(told, "faces", int), need(told, "intercept", bool)
        by_kernel = {"kernel": ["square"], "expansion": ["box"]}.get(self.kind)
        demand(by_kernel or self.kind in ("plain", "lifted"), "there are no such features")
        demand(self.shape in (by_kernel or ["square", "worst", "variance", "box"]), "there is no such size")
        most = 1 if by_kernel or self.shape == "variance" else 10_000
        demand(1 <= self.faces <= most, "the number of faces is out of range")
        self.samples = Samples(rows, m, self.kind == "lifted")
        self.width = self.samples.n if by_kernel else self.samples.m
        sizes = self.faces * max(self.width, self.samples.n), len(need(told, "rows", list))
        demand(sizes[0] <= 30_000_000 and sizes[1] <= 20, "the program is too large")
        self.rows = [Rows(row, y, self.faces) for row in told["rows"]]
        demand(len({row.name for row in self.rows}) == len(self.rows), "two families have one name")
        self.factor = number(self.size.get("factor")) if self.shape in ("square", "worst") else Fraction(1)
        demand(self.factor > 0, "the factor is not positive")
        if self.shape == "box":
            self.ends = [vector(self.size.get(name), self.width, name) for name in ("low", "high", "cost")]
        if self.shape == "variance":
            self.weights = vector(self.size.get("weights"), self.samples.n, "weights")
            self.share = number(self.size.get("share"))
            demand(0 <= self.share < 1 and min(self.weights) > 0, "the variance has a wrong share or weight")
        psd = self.kind != "kernel" or self.features.get("kernel") != "poly"
        demand(psd or number(self.features.get("coef0")) >= 0, "the kernel may not be semidefinite")

    def through(self, c: Vector, out: bool) -> tuple[Vector, Fraction]:
        """The scores of coefficients, without b (out), or the pull of betas; and how far they may be off."""
        if self.kind in ("plain", "lifted"):
            return (self.samples.times(c) if out else self.samples.pull(c)), ZERO
        signs = self.y if self.kind == "expansion" else [1] * len(self.y)
        found, off = self.samples.gram(list(map(mul, c, signs)) if out else c, self.features)
        return found if out else list(map(mul, found, signs)), off

    def metric(self, u: Vector) -> Vector:
        """A u, of the variance."""
        f, total = self.samples.times(u), sum(self.weights)
        mean = dot(self.weights, f) / total
        v = self.samples.pull([p * (g - mean) / total for p, g in zip(self.weights, f)])
        return [(1 - self.share) * a + self.share * b for a, b in zip(u, v)]

    def measure(self, w: Vector, f: Vector, off: Fraction) -> Fraction:
        """The size of a face, or more."""
        if self.shape == "box":
            low, high, cost = self.ends
            demand(all(a <= v <= b for a, v, b in zip(low, w, high)), "the point is outside its box")
            return dot(cost, w)
        if self.kind == "kernel":
            return self.factor * (dot(w, f) + off * sum(map(abs, w)))
        return dot(w, self.metric(w)) / 2 if self.shape == "variance" else self.factor * dot(w, w)

    def value(self, point: Json) -> tuple[Fraction, list[Vector]]:
        """The objective at the point, or more, if it keeps its constraints; and its faces."""
        faces = [vector(w, self.width, "w") for w in need(point, "w", list)]
        demand(len(faces) == self.faces, "the point has another number of faces")
        b = vector(need(point, "b", list), self.faces, "b") if self.intercept else [ZERO] * self.faces
        outputs = [self.through(w, True) for w in faces]
        sizes = [self.measure(w, *output) for w, output in zip(faces, outputs)]
        f = [[v + c for v in scores] if c else scores for (scores, _), c in zip(outputs, b)]
        lost = [rows.value(f, max(off for _, off in outputs)) for rows in self.rows]
        return sum(lost, max(sizes) if self.shape == "worst" else sum(sizes, ZERO)), faces

    def price(self, beta: Vector, share: Fraction, guess: list[Vector]) -> Fraction:
        """The price of a face's multipliers, or more."""
        v, off = self.through(beta, False)
        if self.shape == "box":
            rates = [(a - c, low, high) for a, low, high, c in zip(v, *self.ends)]
            return sum((max(r * a, r * b) + off * max(abs(a), abs(b)) for r, a, b in rates), ZERO)
        if self.shape == "variance" and guess:
            image = self.metric(guess[0])
            r = [a - b for a, b in zip(v, image)]
            return (dot(guess[0], image) + 2 * dot(guess[0], r) + dot(r, r) / (1 - self.share)) / 2
        demand(share or not any(v), "a face without a share is pulled")
        square = dot(beta, v) + off * sum(map(abs, beta)) if self.kind == "kernel" else dot(v, v)
        return square / (4 * share) if share else ZERO

    def bound(self, told: Json, guess: list[Vector]) -> tuple[Fraction, Fraction]:
        """What multipliers earn and pay, if they keep signs, caps and balance."""
        given, n, gain = need(told, "rows", dict), self.samples.n, ZERO
        demand(set(given) == {rows.name for rows in self.rows}, "there must be multipliers of every family")
        betas = [[ZERO] * n for _ in range(self.faces)]
        for rows in self.rows:
            m = [vector(part, n, rows.name) for part in need(given, rows.name, list)]
            demand(len(m) == self.faces, f"{rows.name}: there must be multipliers for each face")
            gain += rows.gain(m)
            for beta, part in zip(betas, m):
                beta[:] = [b + s * v if v else b for b, s, v in zip(beta, rows.side, part)]
        balanced = not self.intercept or not any(sum(whole(beta)[0]) for beta in betas)
        demand(balanced, "the multipliers are not in balance")
        shares = [self.factor] * self.faces
        if self.shape == "worst":
            shares = [self.factor * t for t in vector(told.get("shares"), self.faces, "shares")]
            demand(sum(shares) == self.factor and min(shares) >= 0, "the shares do not divide 1")
        return gain, sum((self.price(beta, t, guess) for beta, t in zip(betas, shares)), ZERO)


def load_samples(told: Json, path: str) -> tuple[list[Cells], int, list[int]]:
    """The samples that a claim is about, as the machine saw them, and their labels -1 and +1."""
    cells, texts = load_npy(path) if path.endswith(".npy") else load_text(path, told.get("target", -1))
    m, runs, labels = need(told, "features", int), need(told, "rows", list), need(told, "labels", dict)
    ends = [end for run in runs for end in run if type(end) is int]
    demand(len(ends) == 2 * len(runs) > 0 and ends == sorted(ends), "the rows are not in order")
    demand(ends[0] >= 0 and ends[-1] <= len(texts) and m <= 10_000_000, "there are no such samples")
    rows = [i for a, z in runs for i in range(a, z)]
    signs = {plain(labels.get("-1")): -1, plain(labels.get("+1")): 1}
    y = [signs.get(plain(texts[i]), 0) for i in rows]
    demand(0 not in y, "the labels are not those of the claim")
    names = [name for name in ("shift", "divide", "factor", "times") if name in told]
    steps = {name: [float(v) for v in vector(told[name], m, name)] for name in names}
    return [prepared(cells[i], m, steps) for i in rows], m, y


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
        demand(hard and program.shape == "square" and gain > 0 and not price, "the multipliers are no ray")
        say("the multipliers are a ray: no point keeps the rows without slack")
        return
    demand(kind == "bounds", "a claim is of bounds or infeasible")
    high, low, gap = (number(stated.get(name)) for name in ("value", "bound", "gap"))
    value, faces = program.value(need(claim, "point", dict))
    demand(value <= high, f"the value is {float(value)!r}, above the {float(high)!r} that is claimed")
    say(f"the point keeps its constraints, and its value is at most {float(high)!r}, as claimed")
    gain, price = program.bound(multipliers, faces)
    demand(gain - price >= low, f"the bound is {float(gain - price)!r}, not {float(low)!r} as claimed")
    say(f"the multipliers keep signs, caps and balance, and prove {float(low)!r}, as claimed")
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
        for claim in load_claims(arguments[0]):
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
