"""What soak/malicious.py tries: hostile values, the valid world that they are put into, and the
commands that meet them."""
