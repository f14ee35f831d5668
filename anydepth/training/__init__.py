"""Losses, the objective that workers share, and the loop."""
