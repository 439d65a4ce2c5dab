"""What the formats share: from the bytes of a file to nodes of a graph. Nothing here knows any one format."""
