"""From files to flat settings: pure, the same input gives the same bytes."""
