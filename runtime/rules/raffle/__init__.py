"""Prize draws: which tickets win, and the public randomness that decides it."""
