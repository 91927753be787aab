"""Convert positions to numbers: arrays of other packages, times, columns of frames, and masks."""
