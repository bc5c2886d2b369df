"""Tests that run inside Pyodide, under node and in Chromium. They may use only what Pyodide has."""
