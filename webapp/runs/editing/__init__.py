"""What people say of runs and jobs after the fact, and how they take it back."""
