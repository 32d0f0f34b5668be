"""Registration of brokers, election of the controller."""
