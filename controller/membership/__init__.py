"""Registration of brokers and the election of the controller."""
