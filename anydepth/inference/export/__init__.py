"""A run as a folder that other programs read."""
