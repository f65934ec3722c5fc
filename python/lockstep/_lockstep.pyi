def version() -> str:
    """Version of Lockstep that the extension was built from."""
