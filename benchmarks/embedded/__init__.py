"""How much the embedded cluster holds, and how fast its time can pass."""
