"""A second checker of claims, from FORMAT.md alone, for small samples; it reads no data, digests or types."""

from __future__ import annotations

import json
import math
from fractions import Fraction

import mpmath

DIGITS, TINY = 90, Fraction(1, 2**110)  # of exp, ln and roots; relative errors of what they enter


def number(text):
    return Fraction(text)


def vector(given, size):
    if isinstance(given, dict):
        found = dict(zip(given["at"], map(number, given["is"]), strict=True))
        if len(found) != len(given["at"]) or not all(0 <= k < size for k in found):
            raise ValueError("places")
        return [found.get(k, Fraction(0)) for k in range(size)]
    found = [number(v) for v in given] if isinstance(given, list) else [number(given)] * size
    if len(found) != size:
        raise ValueError("size")
    return found


def leaves(tree, above, n, K, told, used=0):
    """Of every leaf itself, what is decided (by sample or weight) and multipliers (by family and face)."""
    here = {**above}
    for name, parts in tree.get("rows", {}).items():
        old = above.get(name, [[Fraction(0)] * n] * K)
        here[name] = []
        for part, before in zip(parts, old, strict=True):
            new = vector(part, n)
            kept = set(range(n)) - set(part["at"]) if isinstance(part, dict) else ()
            here[name].append([before[i] if i in kept else v for i, v in enumerate(new)])
    if "ways" not in tree:
        yield tree, told, here
        return
    what = "weight" if "weight" in tree else "sample"
    again = what == "sample" and tree[what] in told
    if again or len(tree["ways"]) != (2 if what == "weight" else min(used + 1, K)):
        raise ValueError("ways")
    for k, way in enumerate(tree["ways"]):
        decided = told | (
            {tree[what]: told.get(tree[what], set()) | {k}} if what == "weight" else {tree[what]: k}
        )
        yield from leaves(way, here, n, K, decided, max(used, k + 1))


def real(function, *given):
    """A function of mpmath's, as a fraction."""
    with mpmath.workdps(DIGITS):
        found = function(*(mpmath.mpf(v.numerator) / v.denominator for v in given))
        return Fraction(*mpmath.libmp.to_rational(mpmath.mpf(found)._mpf_))


def dot(a, b):
    return sum(map(Fraction.__mul__, a, b), Fraction(0))


def entropy(shares):
    return -sum((p * real(mpmath.log, p) for p in shares if p), Fraction(0))


class Family:
    """A family of rows."""

    def __init__(self, told, y, K):
        n = len(y)

        def each(name, default=None):
            given = told.get(name, default)
            return given if isinstance(given, list) else [given] * n

        known = {"all": list(range(K)), "one": [], "none": []}
        self.name, self.c = told["name"], number(told["kink"])
        self.s = y if told["side"] == "label" else [told["side"]] * n
        self.caps = [None if cap == "inf" else number(cap) for cap in each("cap")]
        at = each("at", "all")
        self.one = [a == "one" for a in at]
        self.at = [known[a] if isinstance(a, str) else [a] if isinstance(a, int) else a for a in at]
        self.less = [[] if a == "none" else [a] for a in each("less", "none")]
        self.loss, self.pays = told.get("loss", "hinge"), told.get("pays", "sum")
        self.g = number(told.get("sharp", 1))

    def phi(self, t):
        """The loss of a row."""
        if self.loss == "hinge":
            return max(Fraction(0), t)
        return t if self.loss == "linear" else real(lambda v: mpmath.log1p(mpmath.exp(v)), t)

    def value(self, f):
        """Their sum; None if a row without slack is broken."""
        total = Fraction(0)
        if self.loss == "square":
            means = [dot(self.caps, part) / sum(self.caps) for part in f]
            pairs = [zip(self.caps, part, strict=True) for part in f]
            return sum(
                cap * (v - mean) ** 2 / 2 for pair, mean in zip(pairs, means, strict=True) for cap, v in pair
            )
        for i, cap in enumerate(self.caps):
            other = sum((f[k][i] for k in self.less[i]), Fraction(0))
            places = range(len(f)) if self.one[i] else self.at[i]
            t = [self.c - self.s[i] * (f[k][i] - other) for k in places]
            if cap is None and max(t, default=0) > 0:
                return None
            if cap is None or not t:
                continue
            if self.one[i]:
                total += cap * min(map(self.phi, t))
            elif self.pays == "sum":
                total += cap * sum(map(self.phi, t))
            elif self.pays == "worst":
                total += cap * self.phi(max(t))
            else:
                soft = real(lambda *v: mpmath.log(sum(map(mpmath.exp, v))), *(self.g * v for v in t)) / self.g
                total += cap * self.phi(soft)
        return total

    def gain(self, m, told):
        """What feasible multipliers earn; None of others."""
        total = Fraction(0)
        if self.loss == "square":
            if any(dot(self.s, part) for part in m):
                return None
            return -sum(v * v / (2 * cap) for part in m for v, cap in zip(part, self.caps, strict=True) if v)
        for i, cap in enumerate(self.caps):
            at = ([told[i]] if i in told else []) if self.one[i] else self.at[i]
            own, every = [part[i] for part in m], sum(part[i] for part in m)
            if min(own) < 0 or any(v for k, v in enumerate(own) if k not in at):
                return None
            parts = [own[k] for k in at] if self.pays == "sum" else [every] if at else []
            if cap is not None and any(v > cap or (self.loss == "linear" and v != cap) for v in parts):
                return None
            total += self.c * every
            if self.loss == "logistic" and cap:
                total += sum(cap * entropy([v / cap, 1 - v / cap]) for v in parts)
            if self.pays == "soft" and every:
                total += every / self.g * entropy([v / every for v in own])
        return total


def price(v, h, l1, count, low, high):
    """The largest v w - h w² - l1 |w| - count (w is not 0) in the box; None if it is not finite."""
    best = -count if low > 0 or high < 0 else Fraction(0)
    ends = [w for w in (low, high) if not math.isinf(w)]
    for sign in (1, -1):
        pull = sign * v - l1
        if h and pull > 0:
            ends.append(min(max(sign * pull / (2 * h), low), high))
        elif pull > 0 and math.isinf(high if sign > 0 else low):
            return None
    if count and not low <= 0 <= high:
        best = max(v * w - h * w * w - l1 * abs(w) - count for w in ends)
    elif not low <= 0 <= high:
        best = max(v * w - h * w * w - l1 * abs(w) for w in ends)
    return max([best, *(v * w - h * w * w - l1 * abs(w) - (count if w else 0) for w in ends)])


def features_of(told, X):
    """Features of the samples, as rows."""
    if told["kind"] == "plain":
        return X
    if told["kind"] == "lifted":
        return [[*row, Fraction(1)] for row in X]

    def kernel(x, z):
        if told["kind"] == "rbf":
            square = sum((a - c) ** 2 for a, c in zip(x, z, strict=True))
            return real(mpmath.exp, -number(told["gamma"]) * square)
        return (number(told["gamma"]) * dot(x, z) + number(told["coef0"])) ** told["degree"]

    return [[kernel(x, z) for z in X] for x in X]


def believes(text, X, y):
    """True if the claims in a text hold of samples X (lists of doubles) with labels y."""
    return all(is_true(claim, X, y) for claim in json.loads(text)["claims"])


def is_true(claim, X, y):  # noqa: C901 - as the page has it, from top to bottom
    program, size, n = claim["program"], claim["program"]["size"], len(y)
    K, by_kernel = program["faces"], size["kind"] == "kernel"
    phi = features_of(program["features"], [[Fraction(x) for x in row] for row in X])
    columns, d = list(zip(*phi, strict=True)), len(phi[0])

    def by_face(name, default=0):
        given = size.get(name, default)
        if given in ("inf", "-inf"):
            return [[float(given)] * d] * K
        parts = given if isinstance(given, list) else [given] * K
        return [
            [float(v) if v in ("inf", "-inf") else number(v) for v in part] if isinstance(part, list)
            else [float(part)] * d if part in ("inf", "-inf") else vector(part, d)
            for part in parts
        ]  # fmt: skip

    h, l1, count = (by_face(name) for name in ("factor", "l1", "count"))
    low, high = by_face("low", "-inf"), by_face("high", "inf")
    groups, r = vector(size.get("groups", 0), d), number(size.get("group", 0))
    families = [Family(row, y, K) for row in program["rows"]]
    constant = number(program.get("constant", 0))

    ray = claim["kind"] == "infeasible"
    if ray:
        if any(cap is not None for family in families for cap in family.caps):
            return False
        if set(size) != {"kind", "factor"} or size["kind"] != "square":
            return False
    else:
        W = [vector(w, d) for w in claim["point"]["w"]]
        b = vector(claim["point"]["b"], K) if program["intercept"] else [Fraction(0)] * K
        f = [[dot(row, w) + c for row in phi] for w, c in zip(W, b, strict=True)]
        if any(
            not a <= v <= z
            for w, *ends in zip(W, low, high, strict=True)
            for v, a, z in zip(w, *ends, strict=True)
        ):
            return False
        squares = [
            h[k][0] * dot(W[k], [dot(row, W[k]) for row in phi])
            if by_kernel
            else dot(h[k], [v * v for v in W[k]])
            for k in range(K)
        ]
        value = constant + (max(squares) if size["kind"] == "worst" else sum(squares))
        value += sum(
            a * abs(v) + (c if v else 0)
            for w, *q in zip(W, l1, count, strict=True)
            for v, a, c in zip(w, *q, strict=True)
        )
        for group in set(groups) - {0}:
            value += r * real(
                mpmath.sqrt, sum(v * v for w in W for v, own in zip(w, groups, strict=True) if own == group)
            )
        losses = [family.value(f) for family in families]
        if None in losses:
            return False
        value += sum(losses)

    bounds = []
    for leaf, told, M in leaves(claim["multipliers"], {}, n, K, {}):
        beta, bound = [[Fraction(0)] * n for _ in range(K)], constant
        for family in families:
            gain = family.gain(M[family.name], told if any(family.one) else {})
            if gain is None:
                return False
            bound += gain
            for i in range(n):
                for k in range(K):
                    beta[k][i] += family.s[i] * M[family.name][k][i]
                for k in family.less[i]:
                    beta[k][i] -= family.s[i] * sum(part[i] for part in M[family.name])
        if program["intercept"] and any(map(sum, beta)):
            return False
        t = vector(leaf["shares"], K) if size["kind"] == "worst" else [Fraction(1)] * K
        if min(t) < 0 or (size["kind"] == "worst" and sum(t) != 1):
            return False
        held = [vector(q, d) for q in leaf["held"]] if any(groups) else [[Fraction(0)] * d] * K
        for group in set(groups):
            square = sum(v * v for q in held for v, own in zip(q, groups, strict=True) if own == group)
            if square > (r * r if group else 0):
                return False
        for k in range(K):
            v = [dot(beta[k], column) for column in columns]
            if by_kernel:
                bound -= dot(beta[k], v) / (4 * h[k][0])
                continue
            for j in range(d):
                decided = (
                    told.get(j, set())
                    if k == 0 and not any(any(family.one) for family in families)
                    else set()
                )
                ends, n_j = (low[k][j], high[k][j]), count[k][j]
                if 1 in decided:
                    bound, n_j = bound + n_j, Fraction(0)
                ends = (Fraction(0), Fraction(0)) if 0 in decided else ends
                found = price(v[j] - held[k][j], t[k] * h[k][j], l1[k][j], n_j, *ends)
                if found is None:
                    return False
                bound -= found
        bounds.append(bound)
    if ray:
        return min(bounds) > constant  # as the price is positive, if it is not 0
    top, least, gap = (number(claim["claim"][name]) for name in ("value", "bound", "gap"))
    near = TINY * (1 + abs(value) + abs(min(bounds)))
    return value <= top + near and min(bounds) >= least - near and top - least <= gap
