"""fsck: is the store whole, is each part where it belongs, and what can be put right?"""
