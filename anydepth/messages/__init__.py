"""What long work shows people: lines, bars and heartbeats."""
