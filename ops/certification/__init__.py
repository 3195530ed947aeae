"""`./ops/certify`: every fault of docs/reference/faults.md at full size, against real processes.

The faults are the tests that are marked with one (`pytest.mark.fault`); the suite runs the same ones small.

__main__, table   the command, and its table
process, deployment, proxy    the processes and stores, and what is done to them and to the network between
site, client, load    a tenant, its players and staff, and the recorded history of their requests
judge             conservation, rankings and the history checker, after each scenario
remote            `tombola certify`: a deployment that runs elsewhere, tested from outside
"""
