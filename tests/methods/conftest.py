"""The tests of a method run one after another, so that one worker makes its fits, and makes them once."""

from pathlib import Path

from helpers.methods import Case


def _method_of(item):
    values = item.callspec.params if hasattr(item, "callspec") else {}
    case = values.get("case", values.get("name", ""))
    return case.name if isinstance(case, Case) else case


def pytest_collection_modifyitems(items):
    """Sort the tests of this folder by the method, in the places that they have among all."""
    places = [place for place, item in enumerate(items) if item.path.parent == Path(__file__).parent]
    own = sorted((items[place] for place in places), key=_method_of)
    for place, item in zip(places, own, strict=True):
        items[place] = item
