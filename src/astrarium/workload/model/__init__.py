"""What is computed: one config class per family of models, parameter counts, and import of published configurations."""
