"""May this pod or node be disrupted now? The rulebook, and the record of what was disrupted."""
