"""An ONNX graph, built operation by operation, in double precision.

Opset 19, the first in which texts can be compared; ONNX Runtime reads it from version 1.16 on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

if TYPE_CHECKING:
    from onnx import ModelProto, NodeProto, TensorProto, ValueInfoProto

OPSET, _IR = 19, 9


class Graph:
    """Nodes in the order of their computation. Tensors are known by their names.

    ValueError: where the package onnx is not installed.
    """

    def __init__(self) -> None:
        try:
            import onnx  # noqa: F401
        except ImportError:
            raise ValueError("export to ONNX needs the package onnx: pip install 'polyopt[onnx]'") from None
        self._nodes: list[NodeProto] = []
        self._constants: list[TensorProto] = []
        self._inputs: list[ValueInfoProto] = []
        self._made = 0

    def input(self, name: str, columns: int, *, text: bool = False) -> str:
        """Add a matrix that the user gives, of any number of rows, of numbers or of texts."""
        from onnx import TensorProto, helper

        kind = TensorProto.STRING if text else TensorProto.DOUBLE
        self._inputs.append(helper.make_tensor_value_info(name, kind, [None, columns]))
        return name

    def constant(self, value: ArrayLike) -> str:
        """Add an array of numbers, booleans or texts; floats become float64, and whole numbers int64."""
        from onnx import TensorProto, helper, numpy_helper

        array, name = np.asarray(value), self._name("constant")
        if array.dtype.kind in "UO":
            texts = [str(one).encode() for one in array.ravel()]
            made = helper.make_tensor(name, TensorProto.STRING, array.shape, texts)
        else:
            kinds: dict[str, Any] = {"f": np.float64, "i": np.int64, "u": np.int64}
            made = numpy_helper.from_array(
                np.ascontiguousarray(array, dtype=kinds.get(array.dtype.kind)), name
            )
        self._constants.append(made)
        return name

    def op(self, kind: str, *inputs: str, **attributes: int) -> str:
        """Add one operation of ONNX with one result."""
        from onnx import helper

        name = self._name(kind.lower())
        self._nodes.append(helper.make_node(kind, list(inputs), [name], **attributes))
        return name

    def affine(self, x: str, W: ArrayLike, b: ArrayLike) -> str:
        """Add ``x W' + b`` for W (K, m) and b (K,)."""
        product = self.op("MatMul", x, self.constant(np.asarray(W, dtype=float).T))
        return self.op("Add", product, self.constant(np.asarray(b, dtype=float)))

    def indicators(self, column: str, texts: Sequence[str], spellings: Mapping[str, str]) -> str:
        """Add a column for each text: 1 if the cell of `column` (n, 1) is it, or a spelling of it, else 0."""
        spelled = [*texts, *(other for other, text in spellings.items() if text in texts)]
        found = self.op(
            "Cast", self.op("Equal", column, self.constant(np.array([spelled], dtype=str))), to=11
        )
        if len(spelled) == len(texts):
            return found
        is_text = [[spellings.get(one, one) == text for text in texts] for one in spelled]
        return self.op("MatMul", found, self.constant(np.array(is_text, dtype=float)))

    def over_columns(self, kind: str, x: str) -> str:
        """Add ``"ReduceSum"``, ``"ReduceMax"`` or ``"ReduceMin"`` over the columns: (n, 1)."""
        return self.op(kind, x, self.constant(np.array([1])), keepdims=1)

    def model(
        self, outputs: Mapping[str, tuple[str, str, int | None]], about: Mapping[str, str]
    ) -> ModelProto:
        """Return the graph as a checked model, with facts `about` it.

        Each output has its tensor, its type (``"double"``, ``"int64"``, ``"bool"`` or ``"string"``), and its
        number of columns, None for a vector.
        """
        import onnx
        from onnx import TensorProto, helper

        taken = sorted({one.name for one in self._inputs} & set(outputs))
        if taken:
            raise ValueError(
                f"the column {taken[0]!r} has the name of an output of the ONNX graph: rename it, and fit "
                "again"
            )
        infos = []
        for name, (tensor, kind, columns) in outputs.items():
            self._nodes.append(helper.make_node("Identity", [tensor], [name]))
            shape = [None] if columns is None else [None, columns]
            infos.append(helper.make_tensor_value_info(name, getattr(TensorProto, kind.upper()), shape))
        graph = helper.make_graph(self._nodes, "polyopt", self._inputs, infos, self._constants)
        made = helper.make_model(
            graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=_IR, producer_name="polyopt"
        )
        helper.set_model_props(made, dict(about))
        onnx.checker.check_model(made)
        return made

    def _name(self, stem: str) -> str:
        self._made += 1
        return f"polyopt_{stem}_{self._made}"
