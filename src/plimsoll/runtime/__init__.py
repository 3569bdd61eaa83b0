"""What every controller runs on: decision, reconciler, actuator, expectations, transactions, metrics, audit, clock."""
