"""Control requests on their way from the active controller to a broker, and what applies them."""
