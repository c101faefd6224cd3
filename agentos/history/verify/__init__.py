"""Verify: is what is stored what was written? Chain, commitments, and the tables folded anew."""
