"""What kube-controller-manager, kube-scheduler and the kubelets do, as far as the operator can see it."""
