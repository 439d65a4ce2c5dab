"""The formats of the outside world, as schema files."""
