"""How even does a scale-down stay? Thousands of histories on a model of the ReplicaSet controller."""
