"""The sets that are fetched when first asked for: from a local folder, the cache or the internet.

Where a publisher has a further test file that is not loaded, the entry says so. A set is the same
whichever way it comes, so that a number does not depend on the machine.
"""

from __future__ import annotations

from polyopt.datasets._built_in import DIGITS
from polyopt.datasets._entry import LIBSVM, UCI, UCI_FILES, Entry, named, pixels, single

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
