"""From pending pods to machine orders."""
