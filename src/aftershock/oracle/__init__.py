"""The judge: checks over state and behaviour, never over the actions taken."""
