"""What the browser host costs, measured where it runs: in Pyodide, under node and in headless Chromium."""
