"""Official metrics, diagnostics of refinement, intervals and plots."""
