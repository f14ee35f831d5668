"""A study as a page."""
