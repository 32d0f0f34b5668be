"""Control requests and their responses: values of the controller <-> messages of the protocol."""
