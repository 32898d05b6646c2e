"""One plot a file: a function from an answer to a `Plot`; the kind `plot` of the registry names them."""
