"""`ops/certify`: the page of faults as one command, on real processes.

stack, node, proxy    what runs, and what is done to it
catalogue, client, load, receiver    who uses it, and how; history: what they asked and were answered
judging/              whether the history and the tables can be explained
row, rows/            the faults, each with its size and its figures
run, report           one after the other, and what came of it
"""
