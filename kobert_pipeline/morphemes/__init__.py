"""The lowest room: morphemes on the raw text. Self-contained (one-dot imports only), because `publish` ships these very files."""
