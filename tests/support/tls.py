"""A certificate for `localhost`, made by the `openssl` command, and the two contexts that go with it."""

from __future__ import annotations

import shutil
import ssl
import subprocess
from functools import cache
from pathlib import Path
from tempfile import mkdtemp

import pytest


@cache
def contexts() -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """For the server, and for a client that trusts it."""
    if shutil.which("openssl") is None:
        pytest.skip("the openssl command, which makes the certificate, is not installed")
    folder = Path(mkdtemp(prefix="bursar-tls-"))
    try:
        key, certificate = str(folder / "key.pem"), str(folder / "certificate.pem")
        make = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=localhost"
        names = ["-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"]
        command = [*make.split(), *names, "-keyout", key, "-out", certificate]
        subprocess.run(command, check=True, capture_output=True)
        server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        server.load_cert_chain(certificate, key)
        return server, ssl.create_default_context(cafile=certificate)
    finally:
        shutil.rmtree(folder)
