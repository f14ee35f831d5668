"""The arithmetic of the Transformer, and weights on disk."""
