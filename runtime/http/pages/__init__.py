"""What a player's browser loads: the widget's files (`widget/`), and the hosted pages around it."""
