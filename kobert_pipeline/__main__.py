"""`python -m kobert_pipeline` is `kobert`."""

from kobert_pipeline.cli.main import main

main()
