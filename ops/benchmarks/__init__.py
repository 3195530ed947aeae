"""`ops/bench`: the speed of Tombola on this machine, relative to alternatives on the same machine.

__main__    the command line
bench       prepares cases and runs them in rounds
case        what a case is, and its ratios
cases/      all cases: plays, pgbench, milestones and rankings, a full database, deliveries and events, memory
fixture     tenants, games and prizes to measure
requests    requests as bytes
load        loads a server through generator.py, in its own process
bare        baselines: a bare aiohttp handler, a receiver and bare POSTs
stack       the bench's servers and their resource use
report      the table, and JSON
"""
