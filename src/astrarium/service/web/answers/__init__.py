"""What a worker answers to views, and what a process of a job finds."""
