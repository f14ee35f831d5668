"""Text of any size, translated in shards on all cores of a machine or on a Ray cluster."""
