"""Exits for an adopted model from source text alone: its translations, training, words, thresholds and gains."""
