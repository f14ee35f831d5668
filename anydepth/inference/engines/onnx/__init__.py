"""The engine on the exported graphs of a model in ONNX Runtime, with deferred copies."""
