"""What a policy is worth on a test set: BLEU, depth, FLOPs, significance."""
