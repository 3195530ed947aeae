"""Recorded histories and their checker: does some order of the operations explain every response?

record     the requests, each attempt, and its response
tables     the database's rows at the end
terms      what the checker must know of the tenant: caps, thresholds, stock
checker    the search for an order (linearizability)
reading    the history prepared for the models: the requests of a play, the local days
answers    checks of single responses: known reasons, one response per key, exactly one row
turns, wallets, rewards, stock    sequential models, and the history as operations on them
judge      all checks
"""
