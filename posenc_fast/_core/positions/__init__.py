"""From anything that may be positions to numbers: arrays of other packages, times, columns of frames, masks."""
