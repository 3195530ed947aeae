"""A directory for PYTHONPATH: a process that has it, has its clock off by SKEW_SECONDS (sitecustomize.py)."""
