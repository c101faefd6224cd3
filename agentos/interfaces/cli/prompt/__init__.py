"""What is said to an agent: parts of a command line in their order, texts, files, and prompts with a name."""
