"""What a task can ask for: tasks, nurseries, scopes, time, channels, locks, budgets, and what a run looks like."""
