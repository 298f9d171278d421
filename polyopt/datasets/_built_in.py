"""The sets that need no download: five shipped with the package, two with scikit-learn."""

from __future__ import annotations

from polyopt.datasets._entry import UCI, Entry, named, pixels

DIGITS = tuple(str(digit) for digit in range(10))

SHIPPED = (
    Entry(
        name="ionosphere",
        about=(
            "Radar returns from the ionosphere (Goose Bay, Labrador; Sigillito et al. 1989): real and "
            "imaginary part of the autocorrelation at 17 pulses. The second column is 0 throughout."
        ),
        source="UCI Machine Learning Repository, set 52, ionosphere.data",
        licence=UCI,
        n_samples=351,
        n_features=34,
        counts={0: 126, 1: 225},
        target_names=("bad: no structure seen", "good"),
        feature_names=tuple(f"pulse{i}_{part}" for i in range(1, 18) for part in ("real", "imag")),
    ),
    Entry(
        name="sonar",
        about=(
            "Sonar returns from a metal cylinder or a rock (Gorman and Sejnowski 1988): energy in 60 "
            "frequency bands, each between 0 and 1."
        ),
        source="UCI Machine Learning Repository, set 151, Connectionist Bench (Sonar, Mines vs. Rocks)",
        licence=UCI,
        n_samples=208,
        n_features=60,
        counts={0: 97, 1: 111},
        target_names=("rock", "mine"),
        feature_names=tuple(f"band{i}" for i in range(1, 61)),
    ),
    Entry(
        name="pima",
        about=(
            "Women of Pima heritage, 21 years or older, tested for diabetes (Smith et al. 1988). Zeros of "
            "glucose, blood_pressure, skin_thickness, insulin and bmi stand for values that were not "
            "measured."
        ),
        source=(
            "National Institute of Diabetes and Digestive and Kidney Diseases; formerly in the UCI "
            "Machine Learning Repository, now in CRAN mlbench (PimaIndiansDiabetes) and OpenML 37"
        ),
        licence=(
            "none known; UCI withdrew the set, saying 'no longer available due to "
            "permission restrictions', while CRAN mlbench (GPL-2) goes on distributing it"
        ),
        n_samples=768,
        n_features=8,
        counts={0: 500, 1: 268},
        target_names=("tested negative", "tested positive"),
        feature_names=named("pregnancies glucose blood_pressure skin_thickness insulin bmi pedigree age"),
    ),
    Entry(
        name="bupa",
        about=(
            "Blood tests and daily drinks of 345 men (BUPA liver disorders). The label is the 'selector' "
            "column, which the literature uses as a class although its makers meant it to pick training "
            "and test rows; a good score on it says nothing of livers."
        ),
        source="UCI Machine Learning Repository, set 60, Liver Disorders, bupa.data",
        licence=UCI,
        n_samples=345,
        n_features=6,
        counts={1: 145, 2: 200},
        target_names=("selector 1", "selector 2"),
        feature_names=("mcv", "alkphos", "sgpt", "sgot", "gammagt", "drinks"),
    ),
    Entry(
        name="wbc",
        about=(
            "Fine-needle breast biopsies graded by a pathologist on nine scales from 1 to 10 (Wisconsin, "
            "original; W. H. Wolberg). The 683 complete rows of 699: those with a missing bare_nuclei are "
            "left out."
        ),
        source="UCI Machine Learning Repository, set 15, Breast Cancer Wisconsin (Original)",
        licence=UCI,
        n_samples=683,
        n_features=9,
        counts={0: 444, 1: 239},
        target_names=("benign", "malignant"),
        feature_names=named(
            "clump_thickness cell_size cell_shape marginal_adhesion epithelial_cell_size bare_nuclei "
            "bland_chromatin normal_nucleoli mitoses"
        ),
    ),
)

WITH_SKLEARN = (
    Entry(
        name="wdbc",
        about=(
            "Cell nuclei in images of breast biopsies: mean, standard error and worst value of ten "
            "measures (Wisconsin, diagnostic). The coding is scikit-learn's: malignant is 0 here but 1 in "
            "'wbc'."
        ),
        source="sklearn.datasets.load_breast_cancer; UCI Machine Learning Repository, set 17",
        licence=UCI,
        n_samples=569,
        n_features=30,
        counts={0: 212, 1: 357},
        target_names=("malignant", "benign"),
        feature_names=tuple(
            f"{kind} {measure}"
            for kind in ("mean", "error of", "worst")
            for measure in (
                "radius",
                "texture",
                "perimeter",
                "area",
                "smoothness",
                "compactness",
                "concavity",
                "concave points",
                "symmetry",
                "fractal dimension",
            )
        ),
    ),
    Entry(
        name="digits",
        about="Handwritten digits as 8 × 8 counts of dark pixels, 0 to 16: the test part of 'optdigits'.",
        source="sklearn.datasets.load_digits; UCI Machine Learning Repository, set 80",
        licence=UCI,
        n_samples=1797,
        n_features=64,
        counts={0: 178, 1: 182, 2: 177, 3: 183, 4: 181, 5: 182, 6: 181, 7: 179, 8: 174, 9: 180},
        target_names=DIGITS,
        feature_names=pixels(8, 8),
    ),
)
