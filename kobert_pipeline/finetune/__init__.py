"""Fine-tuning: a pretrained (or randomly initialised) encoder trained on featurized sets, one run per seed. The model
is selected on dev and tested once."""
