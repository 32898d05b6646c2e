"""What verbs print: tables for people, and the same as plain data."""
