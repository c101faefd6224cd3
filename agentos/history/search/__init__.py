"""Full text over what was said in all conversations of a store; `search` is where to begin."""
