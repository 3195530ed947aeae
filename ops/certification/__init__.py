"""`./ops/certify`: every fault of docs/reference/faults.md at full size, against real processes.

The faults are the tests marked `pytest.mark.fault`; the test suite runs them at a small size.

__main__, table   the command and its table
process, deployment, proxy    processes, stores and network, and their faults
site, client, load    a tenant with players and staff, and the recorded history of their requests
judge             conservation, rankings and the history checker, after each scenario
remote            `tombola certify`: tests a deployment elsewhere from outside
"""
