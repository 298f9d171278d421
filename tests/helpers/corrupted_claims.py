"""Claims with something in them changed at random."""

from __future__ import annotations

import copy


def corrupted(claim, draw):
    """A claim with one number, text or length changed, somewhere other than in its titles."""
    found = copy.deepcopy(claim)
    places = []

    def walk(node, path):
        for key, below in node.items() if isinstance(node, dict) else enumerate(node):
            if isinstance(below, (dict, list)):
                walk(below, (*path, key))
            if key != "title":
                places.append((*path, key))

    walk(found["claims"][0], ())
    groups = sorted({path[0] for path in places})
    path = draw.choice([p for p in places if p[0] == draw.choice(groups)] or places)
    holder = found["claims"][0]
    for key in path[:-1]:
        holder = holder[key]
    old = holder[path[-1]]
    if isinstance(old, bool):
        new = not old
    elif isinstance(old, int):
        new = old + draw.choice((-1, 1))
    elif isinstance(old, str) and "/" in old:
        k = draw.choice([k for k, digit in enumerate(old) if digit.isdigit()])
        new = old[:k] + draw.choice("0123456789") + old[k + 1 :]
    elif isinstance(old, str) and old:
        k = draw.randrange(len(old))
        new = old[:k] + draw.choice("0123456789abcdef/p-") + old[k + 1 :]
    else:
        new = None
    if new is None or draw.random() < 0.1:
        del holder[path[-1]]
    else:
        holder[path[-1]] = new
    return found
