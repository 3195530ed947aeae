"""The files that a player's browser loads: the widget (`runtime/web`), and the hosted pages around it."""
