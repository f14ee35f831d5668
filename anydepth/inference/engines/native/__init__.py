"""The engine in C++: kernels for several instruction sets, deferred copies, continuous batching."""
