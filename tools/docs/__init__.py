"""The pages of `docs/` that follow from the code. `python -m tools.docs` writes them, `--check` finds the stale ones."""
