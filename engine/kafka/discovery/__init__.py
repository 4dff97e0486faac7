"""Finds the topics that a flow copies; creates, grows, compares and, where it is told to, deletes their copies."""
