"""Which output words a sentence may use: chosen before decoding, so that a look at them costs little."""
