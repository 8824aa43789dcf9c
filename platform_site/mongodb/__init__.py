"""MongoDB's Django backend with keys as document ids and indexes that an equality can use."""
