"""`python -m kobert_pipeline` is `kobert`."""

from kobert_pipeline.cli import main

main()
