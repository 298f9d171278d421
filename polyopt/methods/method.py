"""`Method`: all that the commands, the comparison and the reports know of a method."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from inspect import signature
from itertools import chain
from typing import Any

__all__ = ["Method", "named"]

_NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")
_DOTTED = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)+")
_LIMITS = ("solver", "time_limit", "random_state")
_MODULE = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*")


def named(place: str) -> Any:
    """Import what a dotted name such as ``"polyopt.margin.svm.SVM"`` stands for."""
    module, _, name = place.rpartition(".")
    return getattr(import_module(module), name)


@dataclass(frozen=True)
class Method:
    """One method: its estimator with settings, its programs, its exact solver and its fast one.

    It is plain data. Code is named by where it is, such as ``"polyopt.margin.svm.SVM"``, and imported
    when it is needed.

    Attributes
    ----------
    name : str
        What a user types, such as ``"rmm-rbf"``.
    title : str
        What it is, in words.
    families : mapping of str to str
        Its families of programs: the name, and the module whose ``pairs(seed)``, and ``singles(seed)`` where
        there is one, state the programs on small random data. Their names begin with the family's.
    programs : tuple of str
        The program, such as ``"rmm.qp"``, and its dual: both solvers' answers are answers to both.
    variants : mapping of str to (str, str)
        By a setting, the program and its dual in the place of `programs` if that setting has another value
        than the estimator's default.
    home : str
        Module and class of the estimator. It takes the settings, `time_limit`, and `solver`: ``"exact"``,
        ``"auto"`` or the others named here. Besides what scikit-learn asks for it has ``certificate(tol)``,
        ``solution_`` and ``duals_``, and for the report ``history_``; a subclass of
        :class:`polyopt.estimators.base.PairwiseClassifier` has these.
    fast : str
        Its fast or stochastic solver; the other is ``"exact"``.
    unit : str
        What an iteration of the fast solver is.
    counts : str
        What :meth:`complexity` counts: ``"support vectors"``, from ``support_``, or ``"faces"``, from
        ``assignment_``.
    settings : dict
        Parameters of the estimator, solver and limits apart.
    tuned : str
        The setting that depends on the data; empty for none.
    rule : str
        How it is chosen, in words.
    tuning : str
        Module and name of the function that chooses it, from the training data, the labels and the other
        settings.
    proving : str
        The solver that proves the optimum where the others prove less; empty where they do not.
    is_bound_stated : bool
        True if the bound of the proving solver is an integer solver's word.
    besides : tuple of str
        Further solvers, compared where the optimum is to be proven.
    is_integer : bool
        Whether the program has integer variables, and so may take very long.
    duals_of : str
        The program whose multipliers the estimator keeps, where it is not the first of `programs`.
    leftovers : tuple of str
        Letters of the multipliers that only say what the others leave of a price; they are printed last.
    slopes : str
        Module and name of the function that says how the optimal value moves with the parameters: it takes
        a fitted binary machine and a tolerance to a list of
        :class:`formulations.sensitivity.Sensitivity`. Empty where nobody has worked it out.
    crosschecks : tuple of str
        Modules whose ``CHECKS`` are the method's identities.
    keeps : tuple of str
        Classes, besides the estimator's and :class:`formulations.language.solution.Solution`, of which a
        fitted estimator keeps objects; a saved model may hold no others.
    exports : mapping of str to str
        Further names that users find in :mod:`polyopt` itself, and their modules; the estimator is there
        without it.
    """

    name: str
    title: str
    families: Mapping[str, str]
    programs: tuple[str, str]
    home: str
    fast: str
    unit: str = "iterations"
    counts: str = "support vectors"
    settings: Mapping[str, Any] = field(default_factory=dict)
    tuned: str = ""
    rule: str = ""
    tuning: str = ""
    proving: str = ""
    is_bound_stated: bool = False
    besides: tuple[str, ...] = ()
    is_integer: bool = False
    duals_of: str = ""
    leftovers: tuple[str, ...] = ()
    slopes: str = ""
    crosschecks: tuple[str, ...] = ()
    keeps: tuple[str, ...] = ()
    exports: Mapping[str, str] = field(default_factory=dict)
    variants: Mapping[str, tuple[str, str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        _check(self)

    @property
    def has_faces(self) -> bool:
        """True if it is a polytope, whose answer is an optimum for the assignment reached alone."""
        return self.counts == "faces"

    def solvers(self, prove: bool = False) -> tuple[str, ...]:
        """Return the solvers to compare: exact, fast and, to `prove` the optimum, the others."""
        more = (*self.besides, self.proving) if prove and self.proving else ()
        return ("exact", self.fast, *more)

    @property
    def estimator_class(self) -> type:
        """The estimator's class, imported when asked for."""
        found: type = named(self.home)
        return found

    def title_for(self, settings: Mapping[str, Any]) -> str:
        """Return the title, with the kernel of these settings if it is another than the entry's."""
        own, kernel = self.settings.get("kernel"), settings.get("kernel")
        if kernel == own or not self.title.endswith("RBF kernel"):
            return self.title
        return f"{self.title.removesuffix('RBF kernel')}{kernel} kernel"

    def programs_for(self, settings: Mapping[str, Any]) -> tuple[str, str]:
        """Return the program and its dual of the machine with these settings."""
        for name, pair in self.variants.items():
            default = signature(self.estimator_class).parameters[name].default
            if settings.get(name, default) != default:
                return pair
        return self.programs

    @property
    def parameters(self) -> tuple[str, ...]:
        """The parameters of the estimator that are settings: all but the solver, its limit and its seed."""
        return tuple(name for name in signature(self.estimator_class).parameters if name not in _LIMITS)

    @property
    def is_random(self) -> bool:
        """True if the estimator uses randomness."""
        return "random_state" in signature(self.estimator_class).parameters

    def check(self, settings: Mapping[str, Any]) -> None:
        """Refuse settings, the others being this entry's, by the estimator's own validation without data."""
        refused: list[ValueError] = []
        for solver in (self.fast, "exact"):
            machine = self.make(solver, {**self.settings, **settings})
            try:
                if hasattr(machine, "_validate_params"):
                    machine._validate_params()
                return  # what one solver takes is a setting of the method
            except ValueError as error:
                refused.append(error)
        raise refused[0]

    def settings_for(self, X: Any, y: Any, **given: Any) -> dict[str, Any]:
        """Return settings for scaled training samples and labels; `given` ones replace this entry's."""
        settings = {**self.settings, **given}
        if self.tuning and self.tuned not in settings:
            choose: Callable[..., Any] = named(self.tuning)
            settings[self.tuned] = choose(X, y, settings)
        return settings

    def make(
        self, solver: str, settings: Mapping[str, Any], *, time_limit: float | None = None, seed: int = 0
    ) -> Any:
        """Make an unfitted estimator with settings of :meth:`settings_for`, and the seed if it has one."""
        estimator = self.estimator_class(solver=solver, time_limit=time_limit)
        estimator.set_params(**settings)
        if "random_state" in estimator.get_params():
            estimator.set_params(random_state=seed)
        return estimator

    def complexity(self, estimator: object) -> int | None:
        """Count support vectors, or faces in use, over all pairs of classes; None if they are not kept."""
        parts = getattr(estimator, "estimators_", [estimator])
        kept = [getattr(part, "assignment_" if self.has_faces else "support_", None) for part in parts]
        each = [{int(k) for k in own if k >= 0} if self.has_faces else own for own in kept if own is not None]
        return sum(map(len, each)) if len(each) == len(parts) else None


def _check(method: Method) -> None:
    """Refuse an entry that no command could use."""
    name = method.name
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise ValueError(f"a method's name must be small letters, digits and hyphens, not {name!r}")

    for what in ("title", "fast", "unit"):
        value = getattr(method, what)
        if not isinstance(value, str) or not value:
            _refuse(method, what, value, "a word or more")
    if method.counts not in ("support vectors", "faces"):
        _refuse(method, "counts", method.counts, "'support vectors' or 'faces'")
    for family in method.families:
        if not family.isidentifier():
            _refuse(method, "families", family, "named by letters, digits and underscores")
    pair = method.programs
    if not isinstance(pair, tuple) or len(pair) != 2 or not all(isinstance(one, str) for one in pair):
        _refuse(method, "programs", pair, "the names of a program and of its dual")
    for one in filter(None, (*pair, method.duals_of, *chain(*method.variants.values()))):
        if one.partition(".")[0] not in method.families:
            known = ", ".join(method.families) or "there are none"
            _refuse(method, "programs", one, f"of its families ({known})")
    for what, place in (("home", method.home), ("tuning", method.tuning), ("slopes", method.slopes)):
        if (place or what == "home") and not (isinstance(place, str) and _DOTTED.fullmatch(place)):
            _refuse(method, what, place, "a module and a name in it, with a dot between")
    for module in (*method.families.values(), *method.crosschecks, *method.exports.values()):
        if not isinstance(module, str) or not _MODULE.fullmatch(module):
            _refuse(method, "families, crosschecks and exports", module, "the names of modules")
    if len({bool(method.tuned), bool(method.rule), bool(method.tuning)}) > 1:
        tuned = (method.tuned, method.rule, method.tuning)
        _refuse(method, "tuned, rule and tuning", tuned, "given together")


def _refuse(method: Method, what: str, value: object, allowed: str) -> None:
    raise ValueError(f"method {method.name!r}: {what} must be {allowed}, not {value!r}")
