"""Benchmarks: engines, policies and rivals in interleaved rounds."""
