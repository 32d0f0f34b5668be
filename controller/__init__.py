"""What the cluster is: coordination, znodes, the picture of the cluster, and its decisions."""
