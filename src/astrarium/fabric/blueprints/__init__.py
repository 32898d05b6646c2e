"""Fabrics made from a few numbers: each a config class of kind `blueprint`."""
