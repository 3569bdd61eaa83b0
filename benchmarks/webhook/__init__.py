"""How fast the admission webhook answers, and how right it is when a thousand ask at once."""
