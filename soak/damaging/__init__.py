"""The parts of soak/damage.py: what is damaged, how, and what looks at it."""
