"""The schema of messages from game.proto, and their conversion from and to JSON."""
