"""Beam search in small pure pieces."""
