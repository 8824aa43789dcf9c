"""What sinks there are; each file is a plug-in for one kind."""
