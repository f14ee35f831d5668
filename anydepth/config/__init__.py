"""Settings: typed, read from TOML, shipped with the package, and documented."""
