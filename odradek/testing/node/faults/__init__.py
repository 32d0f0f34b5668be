"""Faults that a test asks for: of requests, of links between brokers, of the disk.

Pure: `rules`, `naming`, `placement`.  Where they meet the node: `dispatch` and `connection`,
`links`, `files`.  A node has them only if it was built with `Faults`.
"""
