"""Timing: searches in interleaved rounds, and the machine that they run on."""
