"""Races and tables: every figure quoted anywhere comes from a command in here."""

# The pages of the results: what each is called, and the benchmarks whose tables it shows. A page that has the
# name of a module of benchmarks.papers begins with that paper's claims.
PAGES: dict[str, tuple[str, tuple[str, ...]]] = {
    "rmm": (
        "The Relative Margin Machine",
        ("rmm_table", "rmm_figure1", "growth", "rmm_transduction", "error_bounds"),
    ),
    "cross_entropy": (
        "The cross-entropy method",
        ("l0_tables", "l0_claims", "l0_reason", "l0_optimum", "l0_synthetic", "l0_workers"),
    ),
    "polyceptron": ("The Polyceptron", ("polyhedral_table", "polyceptron_steps")),
    "cpm": (
        "The Convex Polytope Machine",
        ("cpm_table", "cpm_errors", "cpm_rivals", "cpm_figure1", "cpm_figure2"),
    ),
    "plume": ("PLUME", ("plume_steps",)),
    "speed": (
        "Speed",
        (
            "kernel_portfolio", "linear_machines", "cpm_speed", "plume_newton", "l0_speed",
            "first_answer", "main_job",
        ),
    ),
    "global_optima": ("Global optima", ("compare_global", "global_races")),
    "interpretable_models": ("Interpretable models", ("interpretable", "interpretable_sets")),
    "large_data": ("Large data", ("covtype_kernel", "dask_linear", "cpm_all_digits")),
    "audits": ("Audits", ("campaign", "audit")),
}  # fmt: skip
