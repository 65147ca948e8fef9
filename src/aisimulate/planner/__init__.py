"""The planner: decides how many workers a deployment should have. Pure: no clock, no input or output."""
