"""Any number of resources: layers of reachable safe nodes."""
