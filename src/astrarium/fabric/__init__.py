"""Fabrics: InfraGraph files and blueprints as graphs of the engine (design/0016)."""
