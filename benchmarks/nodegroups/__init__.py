"""A cluster of 5,000 nodes in groups: how soon machines are asked for, and how long the event loop is held meanwhile."""
