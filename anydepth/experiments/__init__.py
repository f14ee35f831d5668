"""The paper's experiments: records, runs, steps, execution and findings."""
