"""The web page of `cfgen app`: counterfactuals, audits and data without a terminal."""
