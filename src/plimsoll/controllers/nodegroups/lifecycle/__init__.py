"""The life of one machine: `lifecycle` decides the next step, `order` and `termination` call the provider."""
