"""Rules that judge a run a step at a time, and the engine that turns what they find into alerts."""
