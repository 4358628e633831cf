"""The operator's settings: what there is, where it is stored, and the value in force at any moment."""
