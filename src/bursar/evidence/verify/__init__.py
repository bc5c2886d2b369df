"""Verification: check that the law leads to every record of a trace."""

from bursar.evidence.verify.verifier import Verdict, verify

__all__ = ["Verdict", "verify"]
