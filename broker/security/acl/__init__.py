"""Which principals may do what: access control lists and the authorizer."""
