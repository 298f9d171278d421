"""A builder of ONNX graphs in single or double precision.

The opset is 19, the first in which texts can be compared; ONNX Runtime supports it from version 1.16 on.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

if TYPE_CHECKING:
    from onnx import ModelProto, NodeProto, ValueInfoProto

OPSET, _IR = 19, 9  # versions of the operators and of the file format


class Graph:
    """A graph to which each method adds an input, a constant or operations, and returns the tensor's name.

    All real numbers of the graph have one type, `dtype`: ``"float64"`` or ``"float32"``. :meth:`model`
    completes it. ValueError: the package onnx is not installed, or another type.
    """

    def __init__(self, dtype: str = "float64") -> None:
        try:
            from onnx import TensorProto
        except ImportError:
            raise ValueError("export to ONNX needs the package onnx: pip install 'polyopt[onnx]'") from None
        types = {"float64": TensorProto.DOUBLE, "float32": TensorProto.FLOAT}
        if dtype not in types:
            raise ValueError(f"dtype must be 'float64' or 'float32', not {dtype!r}")
        self.dtype = np.dtype(dtype)
        self._real: int = types[dtype]  # ONNX's number of the type
        self._nodes: list[NodeProto] = []
        self._constants: list[TensorProto] = []
        self._inputs: list[ValueInfoProto] = []
        self._n_names = 0

    def input(self, name: str, columns: int, *, text: bool = False) -> str:
        """Add an input matrix of numbers or texts, with any number of rows."""
        from onnx import TensorProto, helper

        kind = TensorProto.STRING if text else self._real
        self._inputs.append(helper.make_tensor_value_info(name, kind, [None, columns]))
        return name

    def constant(self, value: ArrayLike, dtype: str | None = None) -> str:
        """Add an array of numbers, booleans or texts; floats get the graph's type or `dtype`, integers int64.

        ValueError: a number that is too large for the type.
        """
        from onnx import TensorProto, helper, numpy_helper

        array, name = np.asarray(value), self._name("constant")
        if array.dtype.kind in "UO":
            texts = [str(text).encode() for text in array.ravel()]
            tensor = helper.make_tensor(name, TensorProto.STRING, array.shape, texts)
        else:
            types: dict[str, Any] = {"f": dtype or self.dtype, "i": np.int64, "u": np.int64}
            with np.errstate(over="ignore"):
                converted = np.ascontiguousarray(array, dtype=types.get(array.dtype.kind))
            if array.dtype.kind == "f" and (np.isinf(converted) & ~np.isinf(array)).any():
                raise ValueError("a number of the model is too large for float32: export it as float64")
            tensor = numpy_helper.from_array(converted, name)
        self._constants.append(tensor)
        return name

    def op(self, kind: str, *inputs: str, **attributes: int) -> str:
        """Add an ONNX operation, such as ``"MatMul"``, with one output."""
        from onnx import helper

        name = self._name(kind.lower())
        self._nodes.append(helper.make_node(kind, list(inputs), [name], **attributes))
        return name

    def number(self, mask: str) -> str:
        """Add the numbers 1 and 0 of a mask."""
        return self.op("Cast", mask, to=self._real)

    def affine(self, x: str, W: ArrayLike, b: ArrayLike) -> str:
        """Add ``x W' + b`` for W (K, m) and b (K,)."""
        product = self.op("MatMul", x, self.constant(np.asarray(W, dtype=float).T))
        return self.op("Add", product, self.constant(np.asarray(b, dtype=float)))

    def indicators(self, column: str, texts: Sequence[str], spellings: Mapping[str, str]) -> str:
        """Add 0/1 indicators (n, texts) of the texts in `column` (n, 1).

        `spellings` maps further spellings to texts; a cell with one of them counts as that text.
        """
        spelled = [*texts, *(spelling for spelling, text in spellings.items() if text in texts)]
        is_equal = self.op("Equal", column, self.constant(np.array([spelled], dtype=str)))
        matches = self.number(is_equal)
        if len(spelled) == len(texts):
            return matches
        is_text = [[spellings.get(spelling, spelling) == text for text in texts] for spelling in spelled]
        return self.op("MatMul", matches, self.constant(np.array(is_text, dtype=float)))

    def over_columns(self, kind: str, x: str) -> str:
        """Add ``"ReduceSum"``, ``"ReduceMax"`` or ``"ReduceMin"`` over the columns: (n, 1)."""
        return self.op(kind, x, self.constant(np.array([1])), keepdims=1)

    def model(
        self, outputs: Mapping[str, tuple[str, str, int | None]], metadata: Mapping[str, str]
    ) -> "ModelProto":
        """Return the graph as a checked ONNX model with `metadata`.

        `outputs` maps each output's name to three values: the name of its tensor in the graph, its type
        (``"real"``, that of the graph, ``"double"``, ``"int64"``, ``"bool"`` or ``"string"``), and its number
        of columns, None for a vector.
        """
        import onnx
        from onnx import TensorProto, helper

        collisions = sorted({graph_input.name for graph_input in self._inputs} & set(outputs))
        if collisions:
            raise ValueError(
                f"the column {collisions[0]!r} has the name of an output of the ONNX graph: rename it, and "
                "fit again"
            )
        infos = []
        for name, (tensor, kind, columns) in outputs.items():
            self._nodes.append(helper.make_node("Identity", [tensor], [name]))
            shape = [None] if columns is None else [None, columns]
            number = self._real if kind == "real" else getattr(TensorProto, kind.upper())
            infos.append(helper.make_tensor_value_info(name, number, shape))
        graph = helper.make_graph(self._nodes, "polyopt", self._inputs, infos, self._constants)
        model = helper.make_model(
            graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=_IR, producer_name="polyopt"
        )
        helper.set_model_props(model, dict(metadata))
        onnx.checker.check_model(model)
        return model

    def _name(self, stem: str) -> str:
        """Return a new name for a tensor."""
        self._n_names += 1
        return f"polyopt_{stem}_{self._n_names}"
