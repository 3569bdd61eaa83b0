"""Where machines come from: clouds, and stand-ins for them, behind one small protocol."""
