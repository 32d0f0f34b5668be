"""The image of the cluster, and the requests by which a controller changes it."""
