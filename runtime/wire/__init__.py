"""What game.proto says of messages, and how JSON becomes them and they become JSON."""
