"""The API server: plain dicts in, plain dicts out. Stored objects are never changed, only replaced: whoever holds one may keep it."""
