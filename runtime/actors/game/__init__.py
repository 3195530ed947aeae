"""The play path: a game's actor, what it remembers, and how it decides and commits a batch of plays."""
