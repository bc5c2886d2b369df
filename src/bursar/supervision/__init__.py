"""Supervisors and actors: tasks that restart, and tasks with a mailbox."""
