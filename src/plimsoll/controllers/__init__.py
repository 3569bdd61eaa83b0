"""The four controllers. None imports another; they meet through registries or through objects of the cluster."""
