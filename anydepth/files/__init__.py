"""Files that are whole, checked and written by one process at a time."""
