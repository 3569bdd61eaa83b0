"""The life of one machine: ordered, joined, ready, terminated."""
