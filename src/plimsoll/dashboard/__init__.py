"""A window on the operator: what it sees, what it decided and why. It shows, and changes nothing."""
