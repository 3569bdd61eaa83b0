"""What developing Plimsoll needs beside Plimsoll itself; nothing here is part of the installed package."""
