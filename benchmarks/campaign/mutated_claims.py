"""Claims, or the data beside them, in which one thing is broken.

Each mutation of a kind in ``REFUSED`` leaves the format, so a checker refuses it. The other kinds change
what the claim says, which may stay true: a looser constraint, another title, a larger gap.
"""

from __future__ import annotations

import copy
import json
from fractions import Fraction

from polyopt.certificates.claims.statement import numeral

REFUSED = (
    "float for integer", "true for integer", "null", "text for integer", "integer for text", "list for value",
    "boolean as integer", "unknown field", "missing field", "field twice", "nan", "empty data",
)  # fmt: skip
CHANGED = (
    "value",
    "digits",
    "longer list",
    "shorter list",
    "optional field gone",
    "other word",
    "other places",
)
DATA = ("byte", "bytes gone", "bytes more", "line gone", "line twice", "cell gone")
KINDS = (*REFUSED, *CHANGED, *DATA)
_MISSABLE = {"at", "loss", "pays", "less", "l1", "count", "low", "high", "group", "groups", "constant", "b",
             "point", "claim", "variance", "whole", "target", "shift", "divide", "factor", "times",
             "rows"}  # fmt: skip
_WORDS = ("all", "none", "one", "label", "inf", "-inf", "hinge", "logistic", "linear", "sum", "worst", "soft",
          "square", "plain", "lifted", "kernel", "expansion", "poly", "rbf", "bounds",
          "infeasible")  # fmt: skip


def mutated(told, data, draw, kind):
    """Return a claim file's text and its data after one mutation, or None if there is no place for it."""
    if kind in DATA or kind == "empty data":
        changed = _data(data, draw, kind)
        return None if changed is None or changed == data else (json.dumps(told), changed)
    found = copy.deepcopy(told)
    spots = [spot for spot in _spots(found) if _fits(spot, kind)]
    if not spots:
        return None
    groups = sorted({str(path[:3]) for *_, path in spots})  # so that long lists do not outweigh all else
    group = draw.choice(groups)
    holder, key, path = draw.choice([spot for spot in spots if str(spot[2][:3]) == group])
    if kind == "field twice":
        name = draw.choice(sorted(holder))
        pairs = ", ".join(
            f"{json.dumps(k)}: {json.dumps(v)}" for k, v in [*holder.items(), (name, holder[name])]
        )
        holder.clear()
        holder["@"] = 0
        return json.dumps(found).replace('{"@": 0}', f"{{{pairs}}}"), data
    if kind == "unknown field":
        names = [
            "x",
            "Side",
            "cap?",
            "",
            "\ud800",
            *([] if "multipliers" in path else ["ways", "sharp", "shares"]),
        ]
        holder[draw.choice(names)] = draw.choice([0, "", [], {}])
    elif kind in ("missing field", "optional field gone"):
        del holder[key]
    else:
        holder[key] = _other(holder[key], draw, kind)
    text = json.dumps(found)
    return (
        None
        if text == json.dumps(told)
        else (text.replace('"@nan"', draw.choice(["NaN", "Infinity", "1e400"])), data)
    )


def _spots(node, path=()):
    """Every place of a file: what holds it, its key, and the way to it."""
    for key, below in node.items() if isinstance(node, dict) else enumerate(node):
        yield node, key, (*path, key)
        if isinstance(below, (dict, list)):
            yield from _spots(below, (*path, key))


def _fits(spot, kind):
    holder, key, path = spot
    old, is_field = holder[key], isinstance(holder, dict)
    named = path[-2:-1] == ("rows",) and is_field  # the families' multipliers, which have names of their own
    in_tree = "ways" in path or "multipliers" in path
    if kind in ("float for integer", "true for integer", "boolean as integer"):
        return type(old) is int
    if kind == "text for integer":  # elsewhere "1" is the number 1 as well
        return type(old) is int and key in (
            "version",
            "features",
            "faces",
            "degree",
            "side",
            "sample",
            "weight",
            "whole",
        )
    if kind == "integer for text":
        return type(old) is str and key in (
            "format",
            "kind",
            "title",
            "name",
            "sha256",
            "kernel",
            "loss",
            "pays",
            "-1",
            "+1",
        )
    if kind in ("null", "nan"):
        return True
    if kind == "list for value":
        return is_field and key in (
            "format",
            "version",
            "title",
            "kind",
            "faces",
            "intercept",
            "features",
            "sharp",
            "gamma",
        )
    if kind == "unknown field":
        return is_field and not named
    if kind == "missing field":
        return is_field and not named and key not in _MISSABLE and not in_tree
    if kind == "field twice":
        return is_field
    if kind == "optional field gone":
        return is_field and (key in _MISSABLE or in_tree)
    if kind == "value":
        return type(old) in (int, bool)
    if kind == "digits":
        return type(old) is str and any(letter.isdigit() for letter in old)
    if kind in ("longer list", "shorter list"):
        return type(old) is list and (old or kind == "longer list")
    if kind == "other word":
        return type(old) is str and old in _WORDS
    return type(old) is list and len(old) > 1  # other places


def _other(old, draw, kind):
    if kind in ("float for integer", "true for integer", "boolean as integer"):
        return float(old) if kind[0] == "f" else kind[0] == "t"
    if kind in ("null", "nan"):
        return None if kind == "null" else "@nan"
    if kind == "text for integer":
        return str(old)
    if kind == "integer for text":
        return draw.choice([0, 1, -1])
    if kind == "list for value":
        return [old]
    if kind == "value":
        return not old if old is True or old is False else old + draw.choice((-1, 1, 2, 10**6, -(2**62)))
    if kind == "digits":
        if "0x" in old and draw.random() < 0.5:
            digits, power = old.split("p")
            exact = int(digits, 16) * Fraction(2) ** int(power)
            return numeral(exact * (1 + Fraction(draw.choice((-1, 1)), 2 ** draw.randrange(1, 60))))
        k = draw.choice([k for k, letter in enumerate(old) if letter.isdigit()])
        return old[:k] + draw.choice("0123456789abcdef/p-") + old[k + 1 :]
    if kind == "longer list":
        return [*old, draw.choice(old) if old else 0]
    if kind == "shorter list":
        k = draw.randrange(len(old))
        return old[:k] + old[k + 1 :]
    if kind == "other word":
        return draw.choice(_WORDS)
    return draw.sample(old, len(old))


def _data(data, draw, kind):
    """Other bytes, as a file in the svmlight format."""
    if kind == "empty data":
        return draw.choice([b"", b"\n", b"# 1 1:2\n", b"\x93NUMPY", b"\xff\xfe"])
    k, lines = draw.randrange(len(data)), data.splitlines(keepends=True)
    i = draw.randrange(len(lines))
    if kind == "byte":
        return data[:k] + bytes([draw.choice([draw.randrange(256), *b"0123456789.-+e:# \n"])]) + data[k + 1 :]
    if kind == "bytes gone":
        return data[:k] + data[k + draw.randrange(1, 9) :]
    if kind == "bytes more":
        return data + draw.choice([b"1", b" 1:1", b"\n1 1:1", b"\0", b"\x93NUMPY", b"# more"])
    if kind == "line gone":
        return b"".join(lines[:i] + lines[i + 1 :])
    if kind == "line twice":
        return b"".join(lines[: i + 1] + lines[i:])
    words = lines[i].split()
    return b"".join([*lines[:i], b" ".join(words[: max(len(words) - 1, 1)]) + b"\n", *lines[i + 1 :]])
