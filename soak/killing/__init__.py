"""The parts of soak/kills.py: processes, the trials of each verb, and studies."""
