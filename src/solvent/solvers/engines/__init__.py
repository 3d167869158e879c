"""Where the layers of one large solve run, if not in this process."""
