"""HTML pages that need nothing else, and the parts that they share."""
