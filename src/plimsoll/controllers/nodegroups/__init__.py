"""How many nodes are there, and which?

Read in this order: `types` and `spec` (what people wrote), `seen` (what there is), `desired` (how many nodes a group should have),
`pending`, `outlook`, `scale_up` and `awaited` (which pods wait, which nodes would take them, and how far those have come),
`utilisation`, `candidates`, `checks` and `scale_down` (which node may go), `phases` and `drain` (the life of one node), and
`controller`, which puts them together.
"""
