"""What `tombola certify` tries against somebody's deployment, from outside: over its two edges alone, in tenants made
for it.

deployment  how it is asked, and what is made for it and put away
draws       the check of a draw, by what its answers say alone
plays       rows of what may happen once, of stock, caps, draws and rates
doors       rows of who may ask what, and of what nobody should send
"""
