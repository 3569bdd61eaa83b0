"""Kubernetes access: typed partial objects, a client, cached views, leader election, events, a work queue. It decides nothing."""
