"""What is known of the models of other projects: configs, files, and how their encodings are recognised and checked."""
