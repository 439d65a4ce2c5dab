"""How passes rewrite a graph: sweeps, and rules by phase and operator."""
