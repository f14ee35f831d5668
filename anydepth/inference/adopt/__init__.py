"""Models of other programs as runs: a MarianMT folder is read, checked, and written as ours."""
