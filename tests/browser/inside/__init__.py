"""Tests that run inside Pyodide, under node and in Chromium alike. They may use only what is there."""
