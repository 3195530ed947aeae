"""Limits that inform: what campaigns use of their budgets, and prizes that run low. They stop nothing."""
