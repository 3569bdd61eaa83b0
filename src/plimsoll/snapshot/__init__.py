"""A cluster at one moment: read live, read from files, written to a file. What the controllers see, and nothing else."""
