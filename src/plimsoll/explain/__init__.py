"""Why things are as they are, and what would happen next: the controllers' own decisions, laid out for people and programs."""
