"""`tombola certify`: tests a deployment from outside, over its two edges, in tenants made for it.

certify     the command
deployment  how the deployment is asked, and what is made in it and archived
draws       verifies a draw from its answers alone
plays       checks of idempotency, stock, caps, draws and rates
doors       checks of roles, tokens, tenants and malformed requests
"""
