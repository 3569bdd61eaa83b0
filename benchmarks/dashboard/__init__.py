"""How soon the dashboard shows a large cluster, what a change costs, and how little it holds up the operator beside it."""
