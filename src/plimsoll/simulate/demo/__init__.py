"""The demo: `scene` is its cluster, `chapters` lists what happens, `player` plays them. Called by `cli.demo` and tests."""
