"""Every string that users depend on, frozen in `contract.yaml`: a rename inside the operator must not change one by accident.

- `sections` derives the strings from the operator as it is now, one function per section of the file.
- `sources` holds the few names of internals that this needs. After a rename that breaks the derivation, adapt that file.
- `source_tree` and `json_fields` do the reading: texts from the source, field names from types.
- `contract` reads, writes and compares the file. `python -m tests.public_contract.write` writes it anew.
"""
