"""What a run is judged by: the history, thing by thing, and the tables.

checker      is there an order that explains these operations?
reading      the history, read: what belongs together, who is who, which day it was
turns, wallets, prizes   the sequential models, and the history as operations on each
invariants   what is true of the tables whenever nothing is under way
judge        all of it, of one run
"""
