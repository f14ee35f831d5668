"""Where to stop: halting modules, oracles, policies, and what they cost."""
