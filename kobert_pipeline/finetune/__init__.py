"""Fine-tuning: a pretrained (or random) encoder, featurized sets, one run per seed; selected on dev, tested once."""
