"""The operator at work on a real control plane, told in a terminal."""
