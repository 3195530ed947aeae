"""What a player's browser loads: the widget's files (`runtime/web`), and the hosted pages around it."""
