"""The node group controller: how many nodes does each group have, and which?

Read in this order: `types` and `spec` (the objects), `group_state` (what a decision reads), `scale_up.scale_up` (pods → orders),
`lifecycle.lifecycle` (one node until it is ready), `scale_down.scale_down` (candidates → checks → choice), `scale_down.drain`
(one node until it is gone), and `controller`, which calls them.
"""
