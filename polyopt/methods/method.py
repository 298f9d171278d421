"""`Method`: the description of a method for the commands, the comparison and the reports."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from inspect import signature
from itertools import chain
from typing import Any

_NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")
_DOTTED = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)+")
_LIMITS = ("solver", "time_limit", "random_state")
_MODULE = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*")


def named(place: str) -> Any:
    """Import the object of a dotted name, such as ``"polyopt.margin.svm.SVM"``."""
    module, _, name = place.rpartition(".")
    return getattr(import_module(module), name)


@dataclass(frozen=True)
class Method:
    """One method: its estimator with settings, its programs, its exact solver and its fast one.

    It is plain data: code is given by a dotted name, such as ``"polyopt.margin.svm.SVM"``, and imported when
    it is needed.
    """

    name: str  #: name in commands, such as ``"rmm-rbf"``
    title: str  #: name in words
    #: Families of programs: the name, and the module whose ``pairs(seed)`` and, if it has one,
    #: ``singles(seed)`` state the programs on small random data. Their names begin with the family's.
    families: Mapping[str, str]
    programs: tuple[str, str]  #: the program, such as ``"rmm.qp"``, and its dual, which both solvers solve
    #: Module and class of the estimator. It takes the settings, `time_limit`, and `solver`: ``"exact"``,
    #: ``"auto"`` or the others named here. Besides scikit-learn's interface it has ``certificate(tol)``,
    #: ``solution_`` and ``duals_``, and for the report ``history_``, as subclasses of
    #: :class:`polyopt.estimators.base.PairwiseClassifier` do.
    home: str
    fast: str  #: the fast or stochastic solver; the other is ``"exact"``
    unit: str = "iterations"  #: noun for the iterations of the fast solver
    #: Unit of :meth:`complexity`, which counts ``support_``; ``"faces"`` for those of ``assignment_``.
    counts: str = "support vectors"
    #: Parameters of the estimator, without solver and limits.
    settings: Mapping[str, Any] = field(default_factory=dict)
    tuned: str = ""  #: the setting that depends on the data; empty for none
    rule: str = ""  #: the rule for the tuned setting, in words
    #: Dotted name of the function that chooses it from training data, labels and the other settings.
    tuning: str = ""
    proving: str = ""  #: the solver that proves the optimum if the others prove less; empty for none
    is_bound_stated: bool = False  #: True if the proving solver's bound is stated by an integer solver
    besides: tuple[str, ...] = ()  #: further solvers, compared together with the proving one
    is_integer: bool = False  #: True if the program has integer variables, and so may take very long
    duals_of: str = ""  #: the program of the estimator's multipliers, if not the first of `programs`
    leftovers: tuple[str, ...] = ()  #: letters of multipliers that are a cost minus another, printed last
    #: Dotted name of the function for derivatives of the optimal value in the parameters: from a fitted
    #: binary machine and a tolerance to a list of :class:`formulations.sensitivity.Sensitivity`.
    slopes: str = ""
    crosschecks: tuple[str, ...] = ()  #: modules whose ``CHECKS`` are the method's identities
    #: Classes of objects in a fitted estimator, besides the estimator's and
    #: :class:`formulations.language.solution.Solution`; a saved model may contain no others.
    keeps: tuple[str, ...] = ()
    #: Program and dual instead of `programs` by a setting, if it has another value than the default.
    variants: Mapping[str, tuple[str, str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        _check(self)

    @property
    def has_faces(self) -> bool:
        """True if it is a polytope machine, which is optimal only for the assignment reached."""
        return self.counts == "faces"

    def solvers(self, prove: bool = False) -> tuple[str, ...]:
        """Return the solvers to compare: exact, fast and, to `prove` the optimum, the others."""
        more = (*self.besides, self.proving) if prove and self.proving else ()
        return ("exact", self.fast, *more)

    @property
    def estimator_class(self) -> type:
        """The estimator's class, imported at first use."""
        cls: type = named(self.home)
        return cls

    def title_for(self, settings: Mapping[str, Any]) -> str:
        """Return the title, with the kernel of these settings if it is another than the entry's."""
        kernel = settings.get("kernel")
        if kernel == self.settings.get("kernel") or not self.title.endswith("RBF kernel"):
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
        """The parameters of the estimator that are settings: all but solver, time limit and seed."""
        return tuple(name for name in signature(self.estimator_class).parameters if name not in _LIMITS)

    @property
    def is_random(self) -> bool:
        """True if the estimator uses randomness."""
        return "random_state" in signature(self.estimator_class).parameters

    def check(self, settings: Mapping[str, Any]) -> None:
        """Refuse settings that the estimator's validation refuses for each solver, before there are data."""
        errors: list[ValueError] = []
        for solver in (self.fast, "exact"):
            machine = self.make(solver, {**self.settings, **settings})
            try:
                if hasattr(machine, "_validate_params"):
                    machine._validate_params()
                return  # valid for one solver
            except ValueError as error:
                errors.append(error)
        raise errors[0]

    def settings_for(self, X: Any, y: Any, **given: Any) -> dict[str, Any]:
        """Return settings for scaled training samples and labels; `given` ones come first."""
        settings = {**self.settings, **given}
        if self.tuning and self.tuned not in settings:
            choose: Callable[..., Any] = named(self.tuning)
            settings[self.tuned] = choose(X, y, settings)
        return settings

    def make(
        self, solver: str, settings: Mapping[str, Any], *, time_limit: float | None = None, seed: int = 0
    ) -> Any:
        """Make an unfitted estimator with settings of :meth:`settings_for`, and the seed if it uses one."""
        estimator = self.estimator_class(solver=solver, time_limit=time_limit)
        estimator.set_params(**settings)
        if "random_state" in estimator.get_params():
            estimator.set_params(random_state=seed)
        return estimator

    def complexity(self, estimator: object) -> int | None:
        """Count support vectors, or faces with samples, over all pairs of classes; None if unknown."""
        total = 0
        for part in getattr(estimator, "estimators_", [estimator]):
            indices = getattr(part, "assignment_" if self.has_faces else "support_", None)
            if indices is None:
                return None
            total += len({int(k) for k in indices if k >= 0}) if self.has_faces else len(indices)
        return total


def _check(method: Method) -> None:
    """Refuse an invalid description."""
    name = method.name
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise ValueError(f"a method's name must be small letters, digits and hyphens, not {name!r}")

    def require(is_valid: object, attribute: str, value: object, allowed: str) -> None:
        if not is_valid:
            raise ValueError(f"method {name!r}: {attribute} must be {allowed}, not {value!r}")

    for attribute in ("title", "fast", "unit"):
        value = getattr(method, attribute)
        require(isinstance(value, str) and value, attribute, value, "a word or more")
    counts, pair = method.counts, method.programs
    require(counts in ("support vectors", "faces"), "counts", counts, "'support vectors' or 'faces'")
    for family in method.families:
        require(family.isidentifier(), "families", family, "named by letters, digits and underscores")
    is_pair = isinstance(pair, tuple) and len(pair) == 2 and all(isinstance(each, str) for each in pair)
    require(is_pair, "programs", pair, "the names of a program and of its dual")
    known = ", ".join(method.families) or "there are none"
    for program in filter(None, (*pair, method.duals_of, *chain(*method.variants.values()))):
        is_known = program.partition(".")[0] in method.families
        require(is_known, "programs", program, f"of its families ({known})")
    for attribute in ("home", "tuning", "slopes"):
        value = getattr(method, attribute)
        is_place = isinstance(value, str) and _DOTTED.fullmatch(value)
        is_left_out = not value and attribute != "home"
        require(is_place or is_left_out, attribute, value, "a module and a name in it, with a dot between")
    for module in (*method.families.values(), *method.crosschecks):
        is_module = isinstance(module, str) and _MODULE.fullmatch(module)
        require(is_module, "families and crosschecks", module, "the names of modules")
    tuned = (method.tuned, method.rule, method.tuning)
    require(all(tuned) or not any(tuned), "tuned, rule and tuning", tuned, "given together")
