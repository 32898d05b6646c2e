"""Local memory, tiers and remote memory."""
