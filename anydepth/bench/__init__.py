"""The clock: interleaved rounds of engines, policies and rivals."""
