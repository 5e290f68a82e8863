"""effectctl: the command line for clients and admins."""
