"""What happens, as data: entry kinds, drafts and entries, intake, effects, and the neutral model request."""
