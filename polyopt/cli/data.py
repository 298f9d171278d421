"""Data and models on the command line: names, paths, and settings that name columns."""

from __future__ import annotations

import gc
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from polyopt.base.text import visible

if TYPE_CHECKING:
    from sklearn.compose import ColumnTransformer

    from polyopt.datasets import Dataset, Source
    from polyopt.models import Model


class _Deferred(ModuleType):
    """Stands for a module until one of its attributes is read."""

    def __getattr__(self, name: str) -> Any:
        if sys.modules.get(self.__name__) is self:
            del sys.modules[self.__name__]
        module = import_module(self.__name__)
        vars(self).update(vars(module))  # for modules that have this object
        return getattr(module, name)


def import_sklearn() -> None:
    """Import scikit-learn, and put off its imports of pandas and scipy.stats until one of them is used.

    Of the 1.3 CPU seconds that its import takes, scipy.stats has 0.7, and pandas 0.2.
    """
    if "sklearn" in sys.modules:
        return
    for name in ("pandas", "scipy.stats"):
        sys.modules.setdefault(name, _Deferred(name))
    try:
        import sklearn.utils.fixes  # noqa: F401, which imports them
    finally:
        # Whoever finds pandas imported asks of every array whether it is a frame, which would import it.
        if isinstance(sys.modules["pandas"], _Deferred):
            del sys.modules["pandas"]


def load_saved(path: Path) -> Model:
    """Load a model, by :func:`polyopt.models.load_model`; the first call imports what computes."""
    gc.disable()  # imports leave no garbage, and a tenth of their time is spent on looking for it
    try:
        import_sklearn()
        from polyopt.models import load_model

        found = load_model(path)
    finally:
        gc.freeze()
        gc.enable()
    return found


class Form(NamedTuple):
    """Options on a table: its separators, and the treatment of texts and gaps."""

    separator: str | None = None
    decimal: str = "."
    categorical: str | None = None
    impute: Literal["median", "most-frequent"] | None = None
    large: bool = False


def load_data(text: str, target: str | None = None, form: Form = Form()) -> Dataset:  # noqa: B008 - frozen
    """Load the data set that a user names: a known name, the path of a file, or ``-`` for standard input.

    `target` is the label column of a CSV file, by name or by place from 0; the last one by default.
    """
    check_data(text, target, form)
    if is_named(text):
        from polyopt.datasets import load

        return load(text)
    from polyopt.datasets import is_svmlight, open_source, read_csv, read_svmlight

    source = open_source(text)
    if not is_svmlight(source):
        found = read_csv(
            source, -1 if target is None else column_of(source, target, form.separator),
            separator=form.separator, decimal=form.decimal, categorical=_columns(source, form),
            impute=form.impute,
        )  # fmt: skip
    else:
        _refuse_options(text, "an svmlight file, whose lines start with the label", target, form)
        found = read_svmlight(source)
        if found.y.dtype.kind == "f":  # numbers with a fraction are names of classes, as they are in a table
            found = replace(found, y=found.y.astype(str))
    if not form.large:
        _check_sizes(found)
    return replace(found, name=visible(found.name))


def load_prepared(
    text: str, target: str | None = None, form: Form = Form(), settings: Mapping[str, object] | None = None,  # noqa: B008
) -> tuple[Dataset, Dataset, ColumnTransformer | None]:  # fmt: skip
    """Load data for a fit with some settings: the table, the data as numbers, and what makes these of it."""
    from polyopt.compare.data import check_dataset
    from polyopt.datasets import fit_preparation

    table = load_data(text, target, form)
    check_dataset(table)
    check_faces(table, settings or {}, form.large)
    return table, *fit_preparation(table)


def check_data(text: str, target: str | None = None, form: Form = Form()) -> None:  # noqa: B008 - frozen
    """Refuse unknown names and wrong options before any data are read, and before numpy is imported."""
    from polyopt.datasets import names
    from polyopt.datasets.source import check_there

    if is_named(text):
        _refuse_options(text, "a data set with a form of its own", target, form)
    elif text != "-":
        path = Path(text)
        if not path.exists():
            raise ValueError(f"{text!r} is neither a file nor a known data set; known: {', '.join(names())}")
        check_there(path)


def is_named(text: str) -> bool:
    """True if the argument names a data set and no file of that name exists."""
    from polyopt.datasets import names

    return text in names() and not Path(text).is_file()


def check_read_once(texts: Sequence[str]) -> None:
    """Refuse standard input, or another pipe, that is named twice: it can be read but once."""
    streams = ["-" if text == "/dev/stdin" else text for text in texts]
    for stream in dict.fromkeys(streams):
        path = Path(stream)
        is_pipe = stream == "-" or (path.exists() and not path.is_file() and not path.is_dir())
        if is_pipe and streams.count(stream) > 1:
            what = "standard input" if stream == "-" else f"the pipe {stream}"
            raise ValueError(f"{what} can be read once, and --data names it {streams.count(stream)} times")


def check_faces(data: Dataset, settings: Mapping[str, object], large: bool) -> None:
    """Refuse more faces than there are samples, which take long and do nothing, unless `large`."""
    faces, n = settings.get("n_faces"), data.X.shape[0]
    if isinstance(faces, int) and faces > n and not large:
        raise ValueError(
            f"--faces {faces:,} is more than the {n:,} samples of {data.name}: a face that answers for none "
            "does nothing, but takes its time. --large goes on"
        )


def _refuse_options(text: str, kind: str, target: str | None, form: Form) -> None:
    """Refuse what only a CSV file can be asked."""
    decimal = None if form.decimal == "." else form.decimal
    given = {"target": target, **form._asdict(), "decimal": decimal, "large": None}
    if wrong := [name for name, value in given.items() if value is not None]:
        raise ValueError(f"--{wrong[0]} is for CSV files; {text} is {kind}")


def _columns(source: Source, form: Form) -> Literal["all"] | list[int | str]:
    """Return the columns of text, each by name or place."""
    import csv

    if form.categorical is None:
        return []
    row = first_row(source, form.separator)
    if form.categorical == "all" and "all" not in row:
        return "all"
    names = next(csv.reader([form.categorical]), [])
    return [column_of(source, name.strip(), form.separator) for name in names]


def _check_sizes(data: Dataset) -> None:
    """Refuse what would take very long: more than 100 classes, or 20 in few rows, or 10 million columns."""
    import numpy as np

    classes = len(np.unique(data.y))
    # More than 20 labels that mostly stand once are numbers rather than classes.
    if classes > 100 or (classes > 20 and 2 * classes > len(data.y)):
        pairs = classes * (classes - 1) // 2
        time = f"{pairs / 6000:.0f} minutes" if pairs >= 6000 else f"{pairs / 100:.0f} seconds"
        column = "" if data.target is None else f" Is column {data.target!r} that of the labels (--target)?"
        raise ValueError(
            f"{data.name} has {classes:,} different labels, which make {pairs:,} pairs of classes to fit from"
            f" {len(data.y):,} rows; at a hundredth of a second each, {time}.{column} --large goes on"
        )
    n_features = data.X.shape[1]
    if n_features > 10_000_000:
        raise ValueError(
            f"{data.name} has the index {n_features:,}: each vector of weights takes {n_features * 8e-9:.1f} "
            "GB, and a fit several. Number the features without gaps, or --large goes on"
        )


def column_of(source: Source, target: str, separator: str | None = None) -> int | str:
    """Return a column given as text: a name if the file has it in its first row, else a place."""
    if target in first_row(source, separator):
        return target
    return int(target) if re.fullmatch(r"-?\d{1,9}", target, re.ASCII) else target


def first_row(source: Source, separator: str | None = None) -> list[str]:
    """Cells of the first row of a CSV file that is not blank; none where it cannot be read."""
    from polyopt.datasets import DataFileError
    from polyopt.datasets.tables import first_cells

    try:
        return first_cells(source, separator)
    except DataFileError:
        return []  # the careful reader, which comes next, names the line


def by_features(
    settings: Mapping[str, Any], names: Sequence[str] | None, columns: Sequence[str] | None,
    preparation: ColumnTransformer | None,
) -> dict[str, Any]:  # fmt: skip
    """Return the settings with features by number, where the ``penalty`` names them.

    A column of text is a group of its indicators: by its name among ``feature_groups``, and by default if
    there is a penalty on groups, so that it costs as one.
    """
    penalty = settings.get("penalty")
    if penalty is None:
        return dict(settings)
    places: list[int] = []  # column of each feature
    indicators: dict[object, list[object]] = {}  # features of each column of text
    if preparation is not None:
        from polyopt.models.raw_units import RawUnits

        table = columns or [f"x{j}" for j in range(int(preparation.n_features_in_))]
        for number, feature in enumerate(RawUnits.of([("preparation", preparation)], table).features):
            places.append(feature.column)
            if feature.text is not None:
                indicators.setdefault(table[feature.column], []).append(number)
    groups: Any = penalty.feature_groups
    if groups is None and penalty.group and indicators:
        groups = places
    elif isinstance(groups, (list, tuple)) and any(isinstance(part, (list, tuple)) for part in groups):
        parts = [[part] if isinstance(part, str) else part for part in groups]
        groups = [
            [one for key in part for one in indicators.get(key, [key])]
            if isinstance(part, (list, tuple)) else part for part in parts
        ]  # fmt: skip
    return {**settings, "penalty": replace(penalty, feature_groups=groups).numbered(names or ())}
