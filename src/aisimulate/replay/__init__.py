"""The replay: event loop, composition of engines and traffic, and the report."""
