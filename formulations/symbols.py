"""What the letters of a program stand for that are neither its variables nor numbers printed beside it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from formulations.statement import Statement

__all__ = ["Symbol", "symbols_of"]


@dataclass(frozen=True)
class Symbol:
    """A letter and its meaning.

    Attributes
    ----------
    programs : str
        Pattern of the names of the programs that use the letter so.
    sign : str
        Pattern of the letter in a program's text.
    text, latex : str
        The meaning, for a terminal and for a page.
    """

    programs: str
    sign: str
    text: str
    latex: str


def symbols_of(program: Statement) -> list[Symbol]:
    """The letters of a program that its reader has to be told of, in the order of the list below.

    Parameters
    ----------
    program : Statement
        The program.
    """
    texts = [program.objective_text, *(text for row in program.rows for text in (row.text, row.meaning))]
    told: list[Symbol] = []
    for symbol in _SYMBOLS:
        # A meaning may itself use letters that come further down.
        seen = [*texts, *(one.text for one in told)]
        if re.match(symbol.programs, program.name) and any(re.search(symbol.sign, text) for text in seen):
            told.append(symbol)
    return told


_FEATURES = r"(svm\.primal|sigma_svm\.primal|rmm\.qp) \(kernel\)|sigma_svm\.kernel_dual"
_PLAIN = r"(svm\.primal|sigma_svm\.(primal|dual)|rmm\.(qcqp|qcqp_dual|qp))$"
_KERNELS = r"svm\.|rmm\.|one_norm\."
_POLYTOPES = r"(cpm|cpm_worst|spla1|plume|polyceptron|pc_slp)\."

_SYMBOLS = (
    Symbol(r"rmm\.qcqp_dual", r"M\(λ\)", "M(λ) = [I + Σᵢ λᵢ xᵢxᵢ', Σᵢ λᵢ xᵢ; Σᵢ λᵢ xᵢ', Σᵢ λᵢ]",
           r"M(\lambda) = \begin{bmatrix} I + \sum_i \lambda_i x_i x_i^\top & \sum_i \lambda_i x_i \\ "
           r"\sum_i \lambda_i x_i^\top & \sum_i \lambda_i\end{bmatrix}"),
    Symbol(r"rmm\.qcqp_dual", r"\bq\b", "q = (Σᵢ αᵢ yᵢ xᵢ, Σᵢ αᵢ yᵢ)",
           r"q = \big(\sum_i \alpha_i y_i x_i,\, \sum_i \alpha_i y_i\big)"),
    Symbol(r"rmm\.subproblem", r"_f\b",
           "f and h: the samples that are free in this step, and those that are held",
           r"f,\, h \text{: the samples that are free in this step, and those that are held}"),
    Symbol(r"rmm\.", r"B", "B ≥ 0: the bound on the outputs fᵢ = w·xᵢ + b",
           r"B \ge 0 \text{: the bound on the outputs } f_i = w^\top x_i + b"),
    Symbol(r"plume\.m_step_dual", r"α", "αᵢₖ = Cᵢ (γ (pᵢₖ − Rᵢₖ) + Rᵢₖ uᵢₖ yᵢ)",
           r"\alpha_{ik} = C_i \big(\gamma (p_{ik} - R_{ik}) + R_{ik} u_{ik} y_i\big)"),
    Symbol(r"plume\.m_step_dual", r"Ent", "Ent(p) = −Σₖ pₖ ln pₖ", r"\mathrm{Ent}(p) = -\sum_k p_k \ln p_k"),
    Symbol(r"plume\.m_step_dual", r"ent", "ent(u) = −u ln u − (1 − u) ln(1 − u)",
           r"\mathrm{ent}(u) = -u \ln u - (1 - u) \ln(1 - u)"),
    Symbol(r"plume\.", r"S", "Sᵢₖ = Wₖ·x̃ᵢ", r"S_{ik} = W_k^\top \tilde x_i"),
    Symbol(r"plume\.", r"R", "Rᵢₖ: the responsibility of face k for sample i, from the E-step; Σₖ Rᵢₖ = 1",
           r"R_{ik} \text{: the responsibility of face } k \text{ for sample } i \text{, from the E-step; } "
           r"\sum_k R_{ik} = 1"),
    Symbol(r"plume\.", r"γ", "γ ≥ 0: how sharply the gate prefers the face with the least score",
           r"\gamma \ge 0 \text{: how sharply the gate prefers the face with the least score}"),
    Symbol(r"spla1\.", r"H\(", "H(v) = −v ln v − (1 − v) ln(1 − v), which keeps v between 0 and 1",
           r"H(v) = -v \ln v - (1 - v) \ln(1 - v) \text{, which keeps } v \text{ between 0 and 1}"),
    Symbol(r"(spla1|plume)\.", r"ρ", "ρ > 0: the ridge on the weights, the bias among them",
           r"\rho > 0 \text{: the ridge on the weights, the bias among them}"),
    Symbol(r"sigma_svm\.", r"D", "D ∈ [0, 1]: the share of the variance of the outputs in the penalty",
           r"D \in [0, 1] \text{: the share of the variance of the outputs in the penalty}"),
    Symbol(r"sigma_svm\.", r"μ", "μ = Σᵢ xᵢ / n", r"\mu = \tfrac1n \sum_i x_i"),
    Symbol(r"sigma_svm\.", r"DΣ|Σ\^½", "Σ = Σᵢ (xᵢ − μ)(xᵢ − μ)' / n",
           r"\Sigma = \tfrac1n \sum_i (x_i - \mu)(x_i - \mu)^\top"),
    Symbol(_FEATURES, r"x", "xᵢ: the image of sample i in the feature space of the kernel",
           r"x_i \text{: the image of sample } i \text{ in the feature space of the kernel}"),
    Symbol(_PLAIN, r"x", "xᵢ: sample i", r"x_i \text{: sample } i"),
    Symbol(_KERNELS, r"K", "K: the kernel matrix, Kᵢⱼ = k(xᵢ, xⱼ); for the linear kernel xᵢ·xⱼ",
           r"K_{ij} = k(x_i, x_j) \text{: the kernel matrix; for the linear kernel } x_i^\top x_j"),
    Symbol(r"l0\.", r"K", "Kᵢⱼ = k(xᵢ, cⱼ): the kernel of sample i and centre j",
           r"K_{ij} = k(x_i, c_j) \text{: the kernel of sample } i \text{ and centre } j"),
    Symbol(r"l0\.", r"tⱼ", "tⱼ = ±1: the label of centre j",
           r"t_j = \pm 1 \text{: the label of centre } j"),
    Symbol(r"l0\.", r"σ", "σⱼ: whether centre j may be used, 1 or 0",
           r"\sigma_j \text{: whether centre } j \text{ may be used, 1 or 0}"),
    Symbol(r"l0\.", r"w", "wᵢ: the weight of sample i, 1 by default",
           r"w_i \text{: the weight of sample } i \text{, 1 by default}"),
    Symbol(r"l0\.", r"C", "C: the price of loss, and the cap on a coefficient",
           r"C \text{: the price of loss, and the cap on a coefficient}"),
    Symbol(r"rmm_bounds\.", r"Σ_λ", "Σ_λ = (Σᵢ λᵢ) I + D Σᵢ λᵢ uᵢuᵢ'",
           r"\Sigma_\lambda = \big(\sum_i \lambda_i\big) I + D \sum_i \lambda_i u_i u_i^\top"),
    Symbol(r"rmm_bounds\.", r"L", "L: any matrix with LL' = Σᵢ xᵢxᵢ', over the n samples",
           r"L \text{: any matrix with } L L^\top = \sum_i x_i x_i^\top "
           r"\text{, over the } n \text{ samples}"),
    Symbol(r"rmm_bounds\.", r"uᵢ",
           "uᵢ: the samples, labelled or not, at which every output of the class is small",
           r"u_i \text{: the samples, labelled or not, at which every output of the class is small}"),
    Symbol(r"rmm_bounds\.", r"D|E", "E, D: the class is ½‖w‖² + ½D (w·uᵢ)² ≤ E for every i",
           r"E,\, D \text{: the class is } \tfrac12\|w\|^2 + \tfrac12 D (w^\top u_i)^2 \le E "
           r"\text{ for every } i"),
    Symbol(r"(cpm|cpm_worst)\.", r"Z",
           "Zᵢₖ = 1 where sample i is on face k, else 0: a negative is on all, a positive on one",
           r"Z_{ik} = 1 \text{ where sample } i \text{ is on face } k "
           r"\text{, else 0: a negative is on all, a positive on one}"),
    Symbol(r"polyceptron\.", r"Z",
           "Zᵢₖ = 1 where sample i is on face k, else 0: a positive is on all, a negative on one",
           r"Z_{ik} = 1 \text{ where sample } i \text{ is on face } k "
           r"\text{, else 0: a positive is on all, a negative on one}"),
    Symbol(r"(cpm|cpm_worst)\.", r"₍ᵢₖ₎",
           "ξ₍ᵢₖ₎: ξᵢ, shared by the faces, at a negative, and ξᵢₖ at a positive",
           r"\xi_{[ik]} \text{: } \xi_i \text{, shared by the faces, at a negative, and } \xi_{ik} "
           r"\text{ at a positive}"),
    Symbol(r"cpm\.mixed", r"M", "Mᵢ: so large that the row holds where zᵢₖ = 0 (from the data)",
           r"M_i \text{: so large that the row holds where } z_{ik} = 0 \text{ (from the data)}"),
    Symbol(r"pc_slp\.", r"P", "Pⱼₖ = 1 where face k answers for negative j, otherwise 0",
           r"P_{jk} = 1 \text{ where face } k \text{ answers for negative } j \text{, otherwise 0}"),
    Symbol(r"pc_slp\.", r"a[ᵢⱼ]",
           "aᵢ, aⱼ: the sample's share of the cost of its class, 1/n₊ and 1/n₋ for equal costs",
           r"a_i,\, a_j \text{: the sample's share of the cost of its class, } 1/n_+ \text{ and } 1/n_- "
           r"\text{ for equal costs}"),
    Symbol(r"(polyceptron|pc_slp)\.", r"R", "R: the radius of the box that keeps the faces bounded",
           r"R \text{: the radius of the box that keeps the faces bounded}"),
    Symbol(_POLYTOPES, r"x̃", "x̃ᵢ = (xᵢ, 1): sample i, with the bias as the last weight",
           r"\tilde x_i = (x_i, 1) \text{: sample } i \text{, with the bias as the last weight}"),
    Symbol(r"(cpm|cpm_worst)\.", r"y|pos|neg", "yᵢ = +1 (pos) outside the polytope, −1 (neg) inside",
           r"y_i = +1 \text{ outside the polytope, } -1 \text{ inside}"),
    Symbol(r"(spla1|plume|polyceptron)\.", r"y", "yᵢ = +1 inside the polytope, −1 outside",
           r"y_i = +1 \text{ inside the polytope, } -1 \text{ outside}"),
    Symbol(r"pc_slp\.", r"", "i over the positives, inside the polytope; j over the negatives, outside",
           r"i \text{ over the positives, inside the polytope; } j \text{ over the negatives, outside}"),
    Symbol(r"(svm|sigma_svm|rmm|one_norm|l0)\.", r"y", "yᵢ = ±1: the label of sample i",
           r"y_i = \pm 1 \text{: the label of sample } i"),
    Symbol(r"spla1\.", r"C", "Cᵢ: the weight of sample i, 0 where it is not in this cell",
           r"C_i \text{: the weight of sample } i \text{, 0 where it is not in this cell}"),
    Symbol(r"plume\.", r"C", "Cᵢ: the weight of sample i", r"C_i \text{: the weight of sample } i"),
    Symbol(r"cpm\.face|polyceptron\.cell", r"C",
           "Cᵢ: the price of sample i's slack, 0 where it is not on this face",
           r"C_i \text{: the price of sample } i \text{'s slack, 0 where it is not on this face}"),
    Symbol(r"(svm|sigma_svm|rmm|one_norm|cpm|cpm_worst|polyceptron)\.(?!face|cell)", r"C",
           "Cᵢ: the price of sample i's slack, C times its weight",
           r"C_i \text{: the price of sample } i \text{'s slack, } C \text{ times its weight}"),
)  # fmt: skip
