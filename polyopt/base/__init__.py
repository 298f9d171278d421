"""Files, texts, threads, parallel work, progress and ONNX graphs: nothing that knows of a method."""
