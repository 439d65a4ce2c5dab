"""MLPerf LoadGen with fastgraph or a peer as the system under test."""
