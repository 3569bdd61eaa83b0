"""Kubernetes as this project sees it: typed partial objects, a client, live views, leases, events.

It decides nothing.
"""
