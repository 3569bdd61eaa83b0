"""Scale-down: `scale_down` chooses nodes, `checks` may keep them, `drain` removes them."""
