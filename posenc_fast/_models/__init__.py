"""Read configs and files of models of other projects, and identify and check the encodings of these models."""
