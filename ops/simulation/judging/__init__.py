"""What a run is judged by: the history, thing by thing, and the tables.

checker      is there an order that explains these operations?
reading      the history, read: what belongs together, who is who, which day it was
turns, wallets, prizes   the sequential models, and the history as operations on each
answers      what was told is in the tables, as it was told; codes are one reward's
refusals     each has a cause; nobody goes unanswered while nothing is wrong
boards       what a board shows and keeps, against what was played
invariants   what is true of the tables whenever nothing is under way
judge        all of it, of one run
auditing     the auditor's own checks over its rows, in a real PostgreSQL
"""
