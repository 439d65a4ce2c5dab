"""Shared by the formats, on the way from the bytes of a file to nodes of a graph; nothing here knows any one format."""
