"""What tests of this package and of its users build on: contract suites, and doubles that are told what to do."""
