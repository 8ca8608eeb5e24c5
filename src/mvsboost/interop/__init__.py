"""Bridges to other libraries, each in a module of its name, imported only when used."""
