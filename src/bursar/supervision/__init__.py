"""Supervisors and actors: tasks that are restarted, and tasks with a mailbox."""
