"""Hosts: each is an adapter around one event loop. `drive.host` says what the pump needs from a host."""
