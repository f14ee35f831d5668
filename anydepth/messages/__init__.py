"""What long work tells people: lines, bars and heartbeats."""
