"""Kafka's topics by other systems."""
