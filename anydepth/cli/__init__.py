"""The command line: one module for each verb or group of verbs."""
