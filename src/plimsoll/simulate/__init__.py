"""The real operator on the embedded cluster: what would happen, before it does."""
