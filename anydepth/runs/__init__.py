"""The run directory: made, loaded, sealed, with its operating points."""
