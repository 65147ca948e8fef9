"""The command line. Modules here are imported only when their command runs."""
