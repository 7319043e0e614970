"""Turns private statistics into releases. The only room that opens a private value."""
