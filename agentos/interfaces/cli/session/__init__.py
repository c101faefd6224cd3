"""Sessions: printed, listed by their calls, a call of one run again, and files of agents-exe edited."""
