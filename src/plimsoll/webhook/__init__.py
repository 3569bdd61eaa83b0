"""What the operator serves over HTTP: whether it is well, and what it has counted."""
