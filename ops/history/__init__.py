"""Recorded histories, and the one checker of them: is there an order of what was done that explains every answer?

record     the requests, each time that they were sent, and what came back
tables     the rows that the database has in the end
terms      what the checker must know of the tenant: caps, thresholds, stock
checker    the search for an order (linearizability)
reading    the history, read: which requests made one play, which days there were
answers    each answer by itself: known reasons, one answer a key, its row and exactly one
turns, wallets, rewards, stock    sequential models, and the history as operations on them
judge      all of it
"""
