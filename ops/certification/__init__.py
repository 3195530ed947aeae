"""`ops/certify`: the page of faults as one command, on real processes.

stack, node, proxy    what runs, and what is done to it
catalogue, client, load, receiver    who uses it, and how; history: what they asked and were answered
judging/              whether the history and the tables can be explained; measuring: what the history says of times
row, rows/            the faults, each with its size and its figures; slowness: how slow the machine is meanwhile
run, soak, report     one after the other, or hours of it, and what came of it; page: docs/certify.md
"""
