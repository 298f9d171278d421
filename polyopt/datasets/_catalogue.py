"""The named sets: what is known beforehand of each, their list, and the way to find one by its name.

Seven need no download: five are shipped with the package, two with scikit-learn. The others are fetched when
first asked for, from a local folder, the cache or the internet. If a publisher has a further test file that
is not loaded, the entry says so. A set is the same whichever way it comes, so that a number does not depend
on the machine.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from polyopt.datasets._download import DIGESTS

if TYPE_CHECKING:
    import pandas as pd


UCI = "CC BY 4.0, as UCI states for the sets it hosts"
LIBSVM = "https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets/"
UCI_FILES = "https://archive.ics.uci.edu/ml/machine-learning-databases/"


@dataclass(frozen=True)
class Entry:
    """A named public data set, described without loading it.

    name: what :func:`polyopt.datasets.load` calls it.
    about: what the rows and the labels are.
    source, licence: where it comes from and under which terms, as far as known.
    n_samples: rows of the training part, the only one where there is no test part.
    n_features: number of columns m.
    counts: rows per label of the training part; ``None`` where the publisher does not state it.
    counts_test: rows per label of the test part.
    n_test: rows of the test part; 0 when there is none.
    target_names: what each label means, in the order of the sorted labels.
    feature_names: names of the columns.
    files: names (without .npz) a local file may have; the first is the set's own.
    url: where a person would download it; empty for the sets that need no download.
    downloads: names of the publisher's files, of a set that is fetched; none where scikit-learn fetches and
        checks it.
    dtype: numpy's name of the element type of X.
    """

    name: str
    about: str
    source: str
    licence: str
    n_samples: int
    n_features: int
    counts: Mapping[int, int | None]
    target_names: tuple[str, ...]
    counts_test: Mapping[int, int | None] = field(default_factory=dict)
    n_test: int = 0
    feature_names: tuple[str, ...] | None = None
    files: tuple[str, ...] = ()
    url: str = ""
    downloads: tuple[str, ...] = ()
    dtype: str = "float64"

    @property
    def is_checked(self) -> bool:
        """Whether its files are compared with digests that were known beforehand."""
        return all(file in DIGESTS for file in self.downloads)

    @property
    def check(self) -> str:
        """What its files are compared with when they are downloaded."""
        if not self.url:
            return "in the package"
        kinds = {DIGESTS[file].partition(":")[0] for file in self.downloads if file in DIGESTS}
        if not self.is_checked:
            return "no digest known"
        return "MD5" if "md5" in kinds else "SHA-256"

    @property
    def description(self) -> str:
        """What the rows are, the labels, source and licence, as text."""
        labels = "; ".join(
            f"{label} = {meaning}"
            for label, meaning in zip(sorted(self.counts), self.target_names, strict=True)
        )
        checked = "" if self.is_checked else f"\nA download of it cannot be checked: {self.check}."
        return f"{self.about}\nLabels: {labels}.\nSource: {self.source}.\nLicence: {self.licence}.{checked}"


def pixels(rows: int, columns: int) -> tuple[str, ...]:
    """Column names of a flattened image, row by row."""
    return tuple(f"pixel_{r}_{c}" for r in range(rows) for c in range(columns))


def named(columns: str) -> tuple[str, ...]:
    """Column names that stand in one text, with spaces between them."""
    return tuple(columns.split())


def single(url: str) -> dict[str, Any]:
    """Where a set is that is one file, and the name of that file."""
    return {"url": url, "downloads": (url.rpartition("/")[2],)}


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


# As scikit-learn's fetch_covtype names them.
COVTYPE_NAMES = (
    *named(
        "Elevation Aspect Slope Horizontal_Distance_To_Hydrology Vertical_Distance_To_Hydrology "
        "Horizontal_Distance_To_Roadways Hillshade_9am Hillshade_Noon Hillshade_3pm "
        "Horizontal_Distance_To_Fire_Points"
    ),
    *(f"Wilderness_Area_{i}" for i in range(4)),
    *(f"Soil_Type_{i}" for i in range(40)),
)

FETCHED = (
    Entry(
        name="mnist",
        about=(
            "Handwritten digits, 28 × 28 grey values 0 to 255, flattened row by row to 784 columns and "
            "kept as uint8 (440 MB as float64): scale or convert before fitting."
        ),
        source="Y. LeCun, C. Cortes, C. J. C. Burges, the MNIST database",
        licence="none stated with the files",
        n_samples=60000,
        n_test=10000,
        n_features=784,
        counts={0: 5923, 1: 6742, 2: 5958, 3: 6131, 4: 5842, 5: 5421, 6: 5918, 7: 6265, 8: 5851, 9: 5949},
        counts_test={0: 980, 1: 1135, 2: 1032, 3: 1010, 4: 982, 5: 892, 6: 958, 7: 1028, 8: 974, 9: 1009},
        target_names=DIGITS,
        feature_names=pixels(28, 28),
        url="https://ossci-datasets.s3.amazonaws.com/mnist/",
        downloads=(
            "train-images-idx3-ubyte.gz",
            "train-labels-idx1-ubyte.gz",
            "t10k-images-idx3-ubyte.gz",
            "t10k-labels-idx1-ubyte.gz",
        ),
        dtype="uint8",
    ),
    Entry(
        name="usps",
        about="Handwritten digits from US envelopes, 16 × 16 grey values from −1 to 1, three decimals.",
        source="the zip code data of 'The Elements of Statistical Learning' (Hastie, Tibshirani, Friedman)",
        licence="none stated with the files; CRAN ElemStatLearn distributes them under GPL (>= 2)",
        n_samples=7291,
        n_test=2007,
        n_features=256,
        counts={0: 1194, 1: 1005, 2: 731, 3: 658, 4: 652, 5: 556, 6: 664, 7: 645, 8: 542, 9: 644},
        counts_test={0: 359, 1: 264, 2: 198, 3: 166, 4: 200, 5: 160, 6: 170, 7: 147, 8: 166, 9: 177},
        target_names=DIGITS,
        feature_names=pixels(16, 16),
        url="https://hastie.su.domains/ElemStatLearn/datasets/",
        downloads=("zip.train.gz", "zip.test.gz"),
    ),
    Entry(
        name="optdigits",
        about=(
            "Handwritten digits as 8 × 8 counts of dark pixels, 0 to 16; 30 writers in the training part, "
            "13 others in the test part, which is also 'digits'."
        ),
        source="UCI Machine Learning Repository, set 80, optdigits.tra and optdigits.tes",
        licence=UCI,
        n_samples=3823,
        n_test=1797,
        n_features=64,
        counts={0: 376, 1: 389, 2: 380, 3: 389, 4: 387, 5: 376, 6: 377, 7: 387, 8: 380, 9: 382},
        counts_test={0: 178, 1: 182, 2: 177, 3: 183, 4: 181, 5: 182, 6: 181, 7: 179, 8: 174, 9: 180},
        target_names=DIGITS,
        feature_names=pixels(8, 8),
        url=f"{UCI_FILES}optdigits/",
        downloads=("optdigits.tra", "optdigits.tes"),
    ),
    Entry(
        name="a9a",
        about="'adult' with every column cut into indicators: 123 columns of 0 and 1 (Platt 1998). Sparse.",
        source="LIBSVM data page, a9a and a9a.t; made from UCI set 2, Adult",
        licence=f"none stated on the LIBSVM page; the original: {UCI}",
        n_samples=32561,
        n_test=16281,
        n_features=123,
        counts={-1: 24720, 1: 7841},
        counts_test={-1: 12435, 1: 3846},
        target_names=("income up to 50 000 dollars", "income above"),
        url=f"{LIBSVM}binary/a9a",
        downloads=("a9a", "a9a.t"),
    ),
    Entry(
        name="ijcnn1",
        about=(
            "The IJCNN 2001 challenge (engine misfires in a time series), as prepared for LIBSVM: ten "
            "indicators of the phase and twelve numbers. Sparse. +1 is the rare class. The LIBSVM page's "
            "ijcnn1.t is not loaded."
        ),
        source="LIBSVM data page, ijcnn1; D. Prokhorov, IJCNN 2001 generalization ability challenge",
        licence="none stated",
        n_samples=49990,
        n_features=22,
        counts={-1: 45137, 1: 4853},
        target_names=("common class", "rare class"),
        files=("ijcnn1", "ijcnn1_train"),
        **single(f"{LIBSVM}binary/ijcnn1.bz2"),
    ),
    Entry(
        name="rcv1",
        about=(
            "Reuters news stories as cosine-normalised word weights, 47 236 columns. Sparse. The two- "
            "class form of the LIBSVM page: stories that belong to both sides are left out."
        ),
        source="LIBSVM data page, rcv1.binary; Lewis, Yang, Rose, Li, JMLR 5 (2004) 361-397",
        licence=(
            "none stated on the LIBSVM page; Reuters' stories themselves are under an agreement with NIST"
        ),
        n_samples=20242,
        n_test=677399,
        n_features=47236,
        counts={-1: None, 1: None},  # not stated by the publisher
        counts_test={-1: None, 1: None},
        target_names=("GCAT or MCAT", "CCAT or ECAT"),
        url=f"{LIBSVM}binary/rcv1_train.binary.bz2",
        downloads=("rcv1_train.binary.bz2", "rcv1_test.binary.bz2"),
    ),
    Entry(
        name="url",
        about=(
            "Web addresses of 121 days, in their order, as words of the address and facts of its host. "
            "Sparse, 2.8e8 entries: some 2 GB to fetch, and some 10 GB of memory to read."
        ),
        source="LIBSVM data page, url; Ma, Saul, Savage, Voelker, ICML 2009",
        licence=UCI,
        n_samples=2396130,
        n_features=3231961,
        counts={-1: None, 1: None},
        target_names=("benign", "malicious"),
        **single(f"{LIBSVM}binary/url_combined.bz2"),
    ),
    Entry(
        name="kdda",
        about=(
            "Steps of algebra exercises, right or wrong at the pupil's first attempt. Sparse, 3e8 entries: "
            "some 3 GB to fetch, and some 12 GB of memory to read."
        ),
        source="LIBSVM data page, kdd2010 (algebra); Carnegie Learning and DataShop, KDD Cup 2010",
        licence="none stated on the LIBSVM page; to acknowledge Carnegie Learning and DataShop",
        n_samples=8407752,
        n_test=510302,
        n_features=20216830,
        counts={-1: None, 1: None},
        counts_test={-1: None, 1: None},
        target_names=("wrong", "right"),
        url=f"{LIBSVM}binary/kdda.bz2",
        downloads=("kdda.bz2", "kdda.t.bz2"),
    ),
    Entry(
        name="covtype",
        about=(
            "Forest cover of 30 × 30 m cells in Colorado from ten measures, four wilderness indicators "
            "and forty soil indicators. LIBSVM's covtype.binary is class 2 against the rest."
        ),
        source="sklearn.datasets.fetch_covtype; UCI Machine Learning Repository, set 31",
        licence=UCI,
        n_samples=581012,
        n_features=54,
        counts={1: 211840, 2: 283301, 3: 35754, 4: 2747, 5: 9493, 6: 17367, 7: 20510},
        target_names=(
            "spruce or fir",
            "lodgepole pine",
            "ponderosa pine",
            "cottonwood or willow",
            "aspen",
            "Douglas fir",
            "krummholz",
        ),
        feature_names=COVTYPE_NAMES,
        url=f"{UCI_FILES}covtype/covtype.data.gz",
        downloads=(),  # scikit-learn has it, and checks its SHA-256
    ),
    Entry(
        name="cod_rna",
        about=(
            "Pairs of RNA sequences (Uzilov, Keegan, Mathews 2006): ten times the Dynalign free energy, "
            "length of the shorter one, and the share of A, U and C in each. The LIBSVM page's cod-rna.t "
            "and .r are not loaded."
        ),
        source="LIBSVM data page, cod-rna",
        licence="none stated",
        n_samples=59535,
        n_features=8,
        counts={-1: 39690, 1: 19845},
        target_names=("control", "non-coding RNA"),
        feature_names=("dynalign_energy", "shorter_length", "A_1", "U_1", "C_1", "A_2", "U_2", "C_2"),
        **single(f"{LIBSVM}binary/cod-rna"),
    ),
    Entry(
        name="svmguide1",
        about=(
            "Astroparticle events, four measures, from 'A practical guide to support vector classification'."
        ),
        source="LIBSVM data page, svmguide1 and svmguide1.t; Hsu, Chang, Lin 2003",
        licence="none stated",
        n_samples=3089,
        n_test=4000,
        n_features=4,
        counts={0: 1089, 1: 2000},
        counts_test={0: 2000, 1: 2000},
        target_names=("class 0", "class 1"),
        url=f"{LIBSVM}binary/svmguide1",
        downloads=("svmguide1", "svmguide1.t"),
    ),
    Entry(
        name="australian",
        about=(
            "Credit card applications with names and values disguised; categories are numbered. The "
            "publisher calls the classes '-' and '+' and says no more; '+' is usually read as granted."
        ),
        source="LIBSVM data page, australian; UCI Machine Learning Repository, set 143",
        licence=f"none stated on the LIBSVM page; the original: {UCI}",
        n_samples=690,
        n_features=14,
        counts={-1: 383, 1: 307},
        target_names=("-", "+"),
        feature_names=tuple(f"A{i}" for i in range(1, 15)),
        **single(f"{LIBSVM}binary/australian"),
    ),
    Entry(
        name="german_numer",
        about=(
            "Bank credits judged good or bad risks, in the numeric form (24 unnamed columns) made at "
            "Strathclyde."
        ),
        source="UCI Machine Learning Repository, set 144, german.data-numeric",
        licence=UCI,
        n_samples=1000,
        n_features=24,
        counts={1: 700, 2: 300},
        target_names=("good risk", "bad risk"),
        **single(f"{UCI_FILES}statlog/german/german.data-numeric"),
    ),
    Entry(
        name="heart_statlog",
        about="Patients examined for heart disease: thirteen measures, categories numbered.",
        source="UCI Machine Learning Repository, set 145, heart.dat",
        licence=UCI,
        n_samples=270,
        n_features=13,
        counts={1: 150, 2: 120},
        target_names=("heart disease absent", "heart disease present"),
        feature_names=named(
            "age sex chest_pain resting_blood_pressure cholesterol fasting_blood_sugar resting_ecg "
            "max_heart_rate exercise_angina oldpeak slope vessels thal"
        ),
        **single(f"{UCI_FILES}statlog/heart/heart.dat"),
    ),
    Entry(
        name="fourclass_scaled",
        about=(
            "Four clusters of points in the plane, put in two classes that no line separates (Ho and "
            "Kleinberg 1996). Each column is centred at its mean and divided by its largest magnitude."
        ),
        source="LIBSVM data page, fourclass",
        licence="none stated",
        n_samples=862,
        n_features=2,
        counts={-1: 555, 1: 307},
        target_names=("class -1", "class +1"),
        **single(f"{LIBSVM}binary/fourclass"),
    ),
    Entry(
        name="adult",
        about=(
            "People in the 1994 US census. Numbers as they are; each category as its rank in alphabetical "
            "order (from 0, over both parts); NaN where the file has '?': impute before fitting."
        ),
        source="UCI Machine Learning Repository, set 2, adult.data and adult.test",
        licence=UCI,
        n_samples=32561,
        n_test=16281,
        n_features=14,
        counts={0: 24720, 1: 7841},
        counts_test={0: 12435, 1: 3846},
        target_names=("income up to 50 000 dollars", "income above"),
        feature_names=named(
            "age workclass fnlwgt education education-num marital-status occupation relationship race "
            "sex capital-gain capital-loss hours-per-week native-country"
        ),
        files=("adult", "adult_raw"),
        url=f"{UCI_FILES}adult/",
        downloads=("adult.data", "adult.test"),
    ),
)


ENTRIES = {entry.name: entry for entry in (*SHIPPED, *WITH_SKLEARN, *FETCHED)}


def names() -> tuple[str, ...]:
    """Names that :func:`polyopt.datasets.load` knows, those that need no download first."""
    return tuple(ENTRIES)


def built_in() -> tuple[str, ...]:
    """Names of the sets that need no download: those of the package, and of scikit-learn."""
    return tuple(entry.name for entry in (*SHIPPED, *WITH_SKLEARN))


def find_entry(name: str) -> Entry:
    """The entry of that name.

    ValueError: when there is none; the message lists those there are.
    """
    if name in ENTRIES:
        return ENTRIES[name]
    close = difflib.get_close_matches(str(name), ENTRIES, n=1, cutoff=0.5)
    hint = f" Did you mean {close[0]!r}?" if close else ""
    raise ValueError(f"name={name!r} is not a known data set.{hint} Known: {', '.join(ENTRIES)}")


def catalogue() -> pd.DataFrame:
    """Every named set on one line, without loading any.

    Returns
    -------
    DataFrame
        Indexed by ``name``: ``n`` (training rows), ``n_test`` (rows of the publisher's test part, 0 when
        there is none), ``m`` (columns), ``classes`` (how many), ``kept`` ("built in" or "fetched"),
        ``checked`` (what a download is compared with: "SHA-256", "MD5", or "no digest known"), ``source`` and
        ``licence``.
    """
    import pandas as pd

    fetched = {entry.name for entry in FETCHED}
    rows = [
        {
            "name": entry.name,
            "n": entry.n_samples,
            "n_test": entry.n_test,
            "m": entry.n_features,
            "classes": len(entry.counts),
            "kept": "fetched" if entry.name in fetched else "built in",
            "checked": entry.check,
            "source": entry.source,
            "licence": entry.licence,
        }
        for entry in ENTRIES.values()
    ]
    return pd.DataFrame(rows).set_index("name")
