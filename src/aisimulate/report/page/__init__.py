"""The result page: one HTML file that holds everything it shows and fetches nothing."""
