"""What it takes to give the pods of a large Deployment their values, on a real control plane."""
