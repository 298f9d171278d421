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


def leaves(tree, above, n, K, told, used=0):
    """Of every leaf what is decided (by sample or weight) and multipliers (by family, face and sample)."""
    here = {**above}
    for name, parts in tree.get("rows", {}).items():
        old = above.get(name, [[Fraction(0)] * n] * K)
        here[name] = []
        for part, before in zip(parts, old, strict=True):
            new = vector(part, n)
            kept = set(range(n)) - set(part["at"]) if isinstance(part, dict) else ()
            here[name].append([before[i] if i in kept else v for i, v in enumerate(new)])
    if "ways" not in tree:
        yield told, here
        return
    what = "weight" if "weight" in tree else "sample"
    if tree[what] in told or len(tree["ways"]) != (2 if what == "weight" else min(used + 1, K)):
        raise ValueError("ways")
    for k, way in enumerate(tree["ways"]):
        yield from leaves(way, here, n, K, told | {tree[what]: k}, max(used, k + 1))


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
        value = h * sum(v * v for w in W for v in w)
        families, one = [], {}
        for rows in program["rows"]:
            s = y if rows["side"] == "label" else [rows["side"]] * n
            caps = rows["cap"] if isinstance(rows["cap"], list) else [rows["cap"]] * n
            caps = [None if cap == "inf" else number(cap) for cap in caps]
            at = rows.get("at", "all")
            at = at if isinstance(at, list) else [at] * n
            one |= {i: rows["name"] for i in range(n) if at[i] == "one"}
            own = [{"all": range(K), "one": range(K), "none": range(0)}.get(a, [a]) for a in at]
            c, together = number(rows["kink"]), max if rows.get("pays") == "worst" else sum
            families.append((rows["name"], s, c, caps, own, together))
            for i in range(n):
                short = [c - s[i] * f[k][i] for k in own[i]]
                if caps[i] is None and max(short, default=0) > 0:
                    return False
                pays = min if at[i] == "one" else together
                value += caps[i] * pays([max(0, v) for v in short] or [0]) if caps[i] is not None else 0
        bounds = []
        for told, M in leaves(claim["multipliers"], {}, n, K, {}):
            if not set(told) <= set(one):
                return False
            bounds.append(
                bound_of(families, M, {**dict.fromkeys(one), **told}, samples, h, K, program["intercept"])
            )
        high, low, gap = (number(stated[name]) for name in ("value", "bound", "gap"))
        if None in bounds or not (value <= high and min(bounds) >= low and high - low <= gap):
            return False
    return True


def bound_of(families, M, told, samples, h, K, intercept):
    """What multipliers prove where some samples answer at one face (or, yet, at none); None if nothing."""
    n, gain = len(samples), Fraction(0)
    beta = [[Fraction(0)] * n for _ in range(K)]
    for name, s, c, caps, at, together in families:
        for i in range(n):
            own = at[i] if i not in told else [] if told[i] is None else [told[i]]
            m = [part[i] for part in M[name]]
            if min(m) < 0 or any(v for k, v in enumerate(m) if k not in own):
                return None
            if caps[i] is not None and (sum(m) if together is max else max(m)) > caps[i]:
                return None
            gain += c * sum(m)
            for k in range(K):
                beta[k][i] += s[i] * m[k]
    if intercept and any(sum(part) for part in beta):
        return None
    for part in beta:
        v = [sum(map(Fraction.__mul__, part, column)) for column in zip(*samples, strict=True)]
        gain -= sum(t * t for t in v) / (4 * h)
    return gain
