"""Thresholds for every budget."""
