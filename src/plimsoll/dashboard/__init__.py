"""The read-only dashboard: what the operator sees, what it decided and why.

`service` wires everything. `cluster_snapshot` collects records (`records`), `broadcaster` sends them to browsers through `server`,
`dry_run` decides where no operator does, `queries` explains on request, and `auth` admits users.
"""
