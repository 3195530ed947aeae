"""Commands of the desk: prizes, players, their wallets and rewards, and integrations."""
