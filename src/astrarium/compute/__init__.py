"""How long a compute node takes."""
