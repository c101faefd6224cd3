"""What can live in a scope, one file or folder for each kind."""
