"""Strings: their operators, regular expressions, n-grams, tables and hashes."""
