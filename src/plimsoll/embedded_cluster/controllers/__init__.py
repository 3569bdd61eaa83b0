"""The controllers of kube-controller-manager, the scheduler and the kubelets, as far as the operator can observe them."""
