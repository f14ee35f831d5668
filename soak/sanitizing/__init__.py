"""The parts of soak/sanitizers.py: builds, cases, and searches in processes of their own."""
