"""Jobs that users reported, each with its source and the right value."""
