"""Files, text, tables, threads, parallel tasks, progress and ONNX graphs, independent of any method."""
