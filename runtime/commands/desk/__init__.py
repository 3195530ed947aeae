"""Commands of the desk: players, their wallets and rewards, and integrations."""
