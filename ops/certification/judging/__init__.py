"""What a row is judged by: its history held against the tables, and the tables against themselves.

tables     what the database says of a tenant once all is quiet
answers    each answer by itself: known codes, one answer a key, its row and exactly one
turns, wallets    sequential models of a player's caps and balances; reading: the history as operations on them
rewards    the same of each reward's state; and its code, which is one and nobody else's
judge      all of it, of one row
"""

from ops.certification.judging.judge import judge

__all__ = ["judge"]
