"""One file per subword model."""
