"""What monitoring systems are told of a job: Prometheus, and collectors of OpenTelemetry."""
