"""A1: many containers get their drives and ports."""
