"""Hosts: adapters around one event loop each. `drive.host` says what a host owes the pump."""
