"""Verification: whether the law would have taken every decision of a trace."""
