"""`tombola certify`: tests a deployment from outside, over its two edges, in tenants created for it.

certify     the command
deployment  requests to the deployment, and the created resources with their clean-up
draws       verifies a draw from its responses alone
plays       checks of idempotency, stock, caps, draws and rate limits
access      checks of roles, tokens, tenants and malformed requests
"""
