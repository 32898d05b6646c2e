"""Part of the import paths of Chakra."""
