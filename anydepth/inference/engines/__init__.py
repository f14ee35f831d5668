"""The engines that search: PyTorch, which is the specification, native C++ and ONNX."""
