"""`ops/bench`: how fast Tombola is on this machine, beside what else could be had on it.

__main__    the command line
bench       prepares cases and runs them in rounds
case        what a case is, and its ratios
cases/      every case: plays, pgbench, milestones and rankings, a full database, deliveries and events, memory
fixture     tenants, games and prizes to measure
requests    requests as bytes
load        puts load on a server by generator.py, in a process of its own
bare        a bare aiohttp handler, a receiver and bare POSTs, to compare with
stack       the bench's servers, and what they cost
report      the table, and JSON
"""
