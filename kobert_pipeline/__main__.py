"""Makes `python -m kobert_pipeline` the same as `kobert`."""

from kobert_pipeline.cli.main import main

main()
