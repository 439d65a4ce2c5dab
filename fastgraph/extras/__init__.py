"""Rare features, a file for each: its operators, the rules that write them as others, what else it needs."""
