"""What scripts and notebooks call: `simulate` and `recommend`, whose results show themselves."""
