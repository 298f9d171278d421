"""A second checker of claims, from FORMAT.md alone: plain or lifted features, hinge rows, square size."""

from __future__ import annotations

import json
from fractions import Fraction


def number(text):
    if isinstance(text, int):
        return Fraction(text)
    if "p" not in text:
        return Fraction(text)
    digits, power = text.split("p")
    return int(digits, 16) * Fraction(2) ** int(power)


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


def believes(text, X, y):
    """Whether the claims in a text are true of samples X (lists of doubles) with labels y, digests apart."""
    for claim in json.loads(text)["claims"]:
        program, stated, n = claim["program"], claim["claim"], len(y)
        K, h = program["faces"], number(program["size"]["factor"])
        samples = [[Fraction(x) for x in row] for row in X]
        if program["features"]["kind"] == "lifted":
            samples = [[*row, Fraction(1)] for row in samples]
        W = [vector(w, len(samples[0])) for w in claim["point"]["w"]]
        b = vector(claim["point"]["b"], K) if program["intercept"] else [0] * K
        f = [[sum(map(Fraction.__mul__, x, w)) + c for x in samples] for w, c in zip(W, b, strict=True)]
        value, gain = h * sum(v * v for w in W for v in w), Fraction(0)
        beta = [[Fraction(0)] * n for _ in range(K)]
        for rows in program["rows"]:
            caps = rows["cap"] if isinstance(rows["cap"], list) else [rows["cap"]] * n
            at = rows.get("at", "all")
            at = [at] * n if at == "all" else at
            M = [vector(m, n) for m in claim["multipliers"]["rows"][rows["name"]]]
            for i in range(n):
                s, c = (y[i] if rows["side"] == "label" else rows["side"]), number(rows["kink"])
                own = {"all": range(K), "none": range(0)}.get(at[i], [at[i]])
                most = None if caps[i] == "inf" else number(caps[i])
                short, m = [c - s * f[k][i] for k in own], [part[i] for part in M]
                together = max if rows.get("pays") == "worst" else sum
                if most is None and max(short, default=0) > 0:
                    return False
                value += most * together([max(0, v) for v in short] or [0]) if most is not None else 0
                total = sum(m) if rows.get("pays") == "worst" else max(m)
                if min(m) < 0 or any(v for k, v in enumerate(m) if k not in own):
                    return False
                if most is not None and total > most:
                    return False
                gain += c * sum(m)
                for k in range(K):
                    beta[k][i] += s * m[k]
        if program["intercept"] and any(sum(part) for part in beta):
            return False
        for part in beta:
            v = [sum(map(Fraction.__mul__, part, column)) for column in zip(*samples, strict=True)]
            gain -= sum(t * t for t in v) / (4 * h)
        high, low, gap = (number(stated[name]) for name in ("value", "bound", "gap"))
        if not (value <= high and gain >= low and high - low <= gap):
            return False
    return True
